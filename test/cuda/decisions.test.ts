// A core whose GPU decides: admission, growth, tables, refusals; the values of the option
// `authority`.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Control, PendingOp } from '../../src/core/core.js';
import {
  ADMISSION_WORDS,
  Admission,
  AdmissionFlag,
  Admitted,
  ANSWER_HEAD,
  ANSWER_WORDS,
  Answer,
  ASK_HEAD,
  Ask,
  AskFlag,
  DecisionStop,
} from '../../src/core/decision.js';
import { TABLE_NAMES } from '../../src/core/device-tables.js';
import { makeExchange } from '../../src/core/exchange.js';
import { loadAddon } from '../../src/core/loader.js';
import type { NativeConfig } from '../../src/core/native/native.js';
import { BenchCore, codeOf, range, SMALL } from '../support/core-bench.js';
import { PATIENCE_MS } from '../support/waiting.js';
import '../support/gpu.js';

const addon = loadAddon();
const POOL = { backend: 'cuda', device: 'cuda' } as const;

/** A core whose GPU decides. */
function openCore(): BenchCore {
  const create = (config: NativeConfig, exchange: ArrayBuffer) =>
    addon.create({ ...config, authority: 'device' }, exchange);
  return new BenchCore({ ...addon, create }, POOL);
}

type Asked = Partial<Record<keyof typeof Admission, number>>;

/** A request with every budget large. */
function requestOf(admissions: Asked[], head: Partial<Record<keyof typeof Ask, number>> = {}): Int32Array {
  const request = new Int32Array(ASK_HEAD + admissions.length * ADMISSION_WORDS);
  const usual = { tokenBudget: 1000, requestBudget: 100, flags: AskFlag.chunkedPrefill, slotLimit: 64 };
  const words = { ...usual, numAdmissions: admissions.length, ...head };
  for (const [name, value] of Object.entries(words)) request[Ask[name as keyof typeof Ask]] = value;
  admissions.forEach((asked, i) => {
    const at = ASK_HEAD + i * ADMISSION_WORDS;
    request[at + Admission.numHits] = -1;
    for (const [name, value] of Object.entries(asked)) request[at + Admission[name as keyof Asked]] = value;
  });
  return request;
}

const answerFor = (count: number) => new Int32Array(ANSWER_HEAD + count * ANSWER_WORDS);

/** The result of an admission, by name. */
function answerAt(answer: Int32Array, index: number): Record<keyof typeof Admitted, number> {
  const at = ANSWER_HEAD + index * ANSWER_WORDS;
  const entries = Object.entries(Admitted).map(([name, word]) => [name, answer[at + word]]);
  return Object.fromEntries(entries) as Record<keyof typeof Admitted, number>;
}

describe('a core whose GPU decides', () => {
  let core: BenchCore;

  beforeEach(() => {
    core = openCore();
  });
  afterEach(() => core.dispose());

  /** Waits for the decision. */
  async function wait(answer: Int32Array): Promise<void> {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
      if (core.native.pollDecision(answer)) return;
      await new Promise((resolve) => setImmediate(resolve));
    }
    throw new Error('no decision came');
  }

  async function decide(request: Int32Array, entries = 0): Promise<Int32Array> {
    core.native.submitDecision(0, 0, entries, request);
    const answer = answerFor(request[Ask.numAdmissions]);
    await wait(answer);
    return answer;
  }

  it('admits with what it finds in the prefix cache, and grows what runs', async () => {
    const [first, second] = [core.open(range(18)), core.open(range(18))];
    const answer = await decide(requestOf([{ slot: first }, { slot: second }]));
    expect(answer.subarray(0, 4)).toEqual(Int32Array.of(DecisionStop.none, 0, 2, 2));
    expect(answerAt(answer, 0)).toEqual({
      row: 0,
      numHits: 0,
      numTokens: 18,
      numBlocks: 5,
      numNewBlocks: 5,
      numComputedTokens: 0,
    });
    expect(answerAt(answer, 1)).toMatchObject({ row: 1, numHits: 4, numTokens: 2, numNewBlocks: 1 });
    expect(answerAt(answer, 1).numComputedTokens).toBe(16);
    expect(core.blocks(second)).toEqual(Int32Array.of(1, 2, 3, 4, 6));

    for (let i = 0; i < 3; i++) core.push(PendingOp.append, first, i);
    core.control[Control.headSlot] = first;
    core.entry(0, first, 18, 3);
    expect(await decide(requestOf([]), 1)).toEqual(Int32Array.of(0, 1, 0, 0, 0, 0, 0, 0));
    expect([core.frames[0].numBlocks[0], core.frames[0].numNewBlocks[0]]).toEqual([6, 1]);
    expect(core.control[Control.commonPrefix]).toBe(4);
    core.native.verify();
    core.native.startMirrorDigest();
    let digest = core.native.mirrorDigest();
    for (const end = Date.now() + PATIENCE_MS; digest === null && Date.now() < end; )
      digest = core.native.mirrorDigest();
    expect(digest).toBe(core.native.digest());
  });

  it('takes exactly the hits that somebody was told of, and what he loads first', async () => {
    const [first, second, third] = range(3).map(() => core.open(range(18)));
    await decide(requestOf([{ slot: first }]));
    const flags = AdmissionFlag.loadsFirst;
    const answer = await decide(
      requestOf([
        { slot: second, numHits: 2, numExternalTokens: 5, flags },
        { slot: third, numHits: 1, numExternalTokens: 3 },
      ]),
    );
    expect(answerAt(answer, 0)).toMatchObject({
      numHits: 2,
      numTokens: 0,
      numBlocks: 4,
      numComputedTokens: 13,
    });
    expect(answerAt(answer, 1)).toMatchObject({
      numHits: 1,
      numTokens: 11,
      numBlocks: 5,
      numComputedTokens: 7,
    });
    const fourth = core.open(range(9).map((i) => i + 50));
    const missing = await decide(requestOf([{ slot: fourth, numHits: 1 }]));
    expect(missing[Answer.stop]).toBe(DecisionStop.hits);
    expect(answerAt(missing, 0)).toMatchObject({ row: -1, numHits: 0, numBlocks: 0 });
  });

  it('gathers the tables of a step out of the rows that it decided, and not before it has', async () => {
    const expectSame = (numEntries: number): void => {
      const [onDevice, onHost] = [core.gatherOnDevice(0, numEntries), core.gather(0, numEntries)];
      for (const name of TABLE_NAMES) expect(onDevice.read(name), name).toEqual(onHost[name]);
    };
    const [first, second] = [core.open(range(18)), core.open(range(18))];
    core.entry(0, first, 0, 18);
    core.entry(1, second, 16, 2);
    core.native.submitDecision(0, 0, 0, requestOf([{ slot: first }, { slot: second }]));
    expect(codeOf(() => core.gatherOnDevice(0, 0))).toBe('ERR_BLOCKSTEP_DECISION_PENDING');
    await wait(answerFor(2));
    expectSame(2);
    // One grows, and the other's row is taken by a third.
    core.push(PendingOp.close, second, 0);
    const third = core.open(range(9).map((i) => i + 50));
    core.entry(0, first, 18, 3);
    await decide(requestOf([{ slot: third }]), 1);
    core.entry(1, third, 0, 9);
    expectSame(2);
    core.push(PendingOp.close, third, 0); // a fact that the GPU is given with the gather
    expectSame(1);
    expect(core.deviceTables().waits).toBe(0);
  });

  it('leaves what is pending alone until its decision has come', async () => {
    const [first, second] = [core.open(range(9)), core.open(range(9))];
    await decide(requestOf([{ slot: first }]));
    const { freeBlocks } = core;
    core.native.submitDecision(0, 0, 0, requestOf([{ slot: second }]));
    core.close(first);
    expect([core.freeBlocks, core.rowsInUse, core.native.handle(first)]).toEqual([
      freeBlocks,
      1,
      expect.any(Number),
    ]);
    expect(core.control[Control.deciding]).toBe(1);
    for (let n = 1; n < SMALL.pendingCapacity!; n++) core.push(PendingOp.publish, second, 0);
    expect(codeOf(() => core.push(PendingOp.publish, second, 0))).toBe('ERR_BLOCKSTEP_DECISION_PENDING');
    for (const change of [
      () => core.native.pin(Int32Array.of(1)),
      () => core.native.reset(),
      () => core.submit(),
    ]) {
      expect(codeOf(change)).toBe('ERR_BLOCKSTEP_DECISION_PENDING');
    }
    expect(core.open(range(3))).toBe(2);
    await wait(answerFor(1));
    expect(core.control[Control.deciding]).toBe(0);
    expect([core.rowsInUse, core.native.handle(first)]).toEqual([1, 0]);
    core.native.verify();
  });

  it('refuses what it is not for, and arguments that are none, and changes nothing', async () => {
    const slot = core.open(range(9));
    const before = core.fingerprint();
    expect(codeOf(() => core.native.run(0, 0, 0))).toBe('ERR_BLOCKSTEP_AUTHORITY');
    expect(codeOf(() => core.native.admit(slot, 0, 0, 8, 8))).toBe('ERR_BLOCKSTEP_AUTHORITY');
    expect(codeOf(() => core.native.pollDecision(answerFor(1)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const good = requestOf([{ slot }]);
    const bad: unknown[][] = [
      [],
      [0, 0, 0],
      [0, 0, 0, null],
      [0, 0, 0, [...good]],
      [0, 0, 0, new Uint32Array(good)],
      [2, 0, 0, good],
      [0, 1, 0, good],
      [0, 0, 9, good],
      [0, 0, 0, good.subarray(0, 7)],
      [0, 0, 0, requestOf([{ slot }], { numAdmissions: 2 })],
      [0, 0, 0, requestOf([{ slot }], { flags: 32 })],
      [0, 0, 0, requestOf([{ slot, numComputedTokens: 9 }])],
    ];
    for (const args of bad) {
      const call = () => (core.native.submitDecision as (...args: unknown[]) => void)(...args);
      expect(codeOf(call), String(args)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(codeOf(() => core.native.submitDecision(0, 0, 0, requestOf([{ slot: 7 }])))).toBe(
      'ERR_BLOCKSTEP_BAD_SLOT',
    );
    expect(core.fingerprint()).toBe(before);
    core.native.submitDecision(0, 0, 0, good);
    for (const answer of [undefined, answerFor(0), new Float64Array(20)]) {
      expect(codeOf(() => core.native.pollDecision(answer as Int32Array))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    await wait(answerFor(1));
    expect(core.rowsInUse).toBe(1);
  });

  it('is disposed while it decides', () => {
    core.native.submitDecision(0, 0, 0, requestOf([{ slot: core.open(range(9)) }]));
    core.dispose();
    expect(codeOf(() => core.native.pollDecision(answerFor(1)))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
});

describe('the authority of a core', () => {
  const config = (more: object): NativeConfig => ({ ...(SMALL as NativeConfig), ...more });

  it('is one of two, and the device needs one', () => {
    const { buffer } = makeExchange(config({}));
    for (const authority of ['device', 'gpu', 1, null]) {
      expect(codeOf(() => addon.create(config({ authority }), buffer))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('is the host unless somebody says otherwise', () => {
    for (const more of [{}, { authority: 'host' }]) {
      const native = addon.create(config(more), makeExchange(config({})).buffer);
      expect(codeOf(() => native.submitDecision(0, 0, 0, requestOf([])))).toBe('ERR_BLOCKSTEP_AUTHORITY');
      expect(codeOf(() => native.pollDecision(answerFor(0)))).toBe('ERR_BLOCKSTEP_AUTHORITY');
      expect(native.run(0, 0, 0)).toBe(0);
      native.dispose();
    }
  });
});
