// Every message arrives as it was sent; damaged, foreign or newer messages are skipped and never
// thrown.
import { expect, it } from 'vitest';
import type { PipelineMessage, StageEnd } from '../../../src/pipeline/index.js';
import { makeEntry, makeMark, readEntry } from '../../../src/pipeline/redis/wire/entry.js';
import { fromWire, toWire } from '../../../src/pipeline/redis/wire/message-parts.js';
import { Packer } from '../../../src/pipeline/redis/wire/packer.js';
import { Random } from '../../support/engine-bench.js';

const packer = await Packer.open(2 ** 20);
const PLACE = { sender: 'stage/a', instance: 'x1', epoch: 2, first: 7 };
const TOKENS = Int32Array.of(0, -1, 2 ** 31 - 1, 5);
const EXTRAS = [
  Float32Array.of(1.5, -0.25),
  { deep: [1n << 62n, null, 'ä€𝄞', 2 ** 40, -1.5], bytes: Uint8Array.of(1, 2, 255) },
  new BigUint64Array([2n ** 64n - 1n]),
  new Date(86_400_000),
];
const END: StageEnd = {
  ...{ finishReason: 'stop' as const, stopReason: 17, numPromptTokens: 3, numOutputTokens: 4 },
  ...{ numCachedTokens: 0, numPreemptions: 1, firstTokenMs: null, endedMs: 12.5 },
};
const FIGURES = { requests: 1, parked: 0, chunksIn: 2, chunksOut: 3, troubles: ['a step broke off'] };
/** One message of each kind, with every field that a message can have. */
const MESSAGES: readonly PipelineMessage[] = [
  {
    kind: 'submit',
    submission: {
      ...{ key: 'k.1', id: 'my id', client: 'client/c', from: null, to: 'stage/b', wants: true },
      ...{ prompt: TOKENS, fields: { maxTokens: 3, stopTokenIds: [1, 2], params: { heat: 0.5 } } },
    },
  },
  { kind: 'chunk', key: 'k.1', chunk: { number: 1, tokens: TOKENS, extras: EXTRAS, isLast: false } },
  {
    kind: 'chunk',
    key: 'k.1',
    chunk: { number: 2, tokens: new Int32Array(0), extras: null, isLast: true, fields: { maxTokens: 2 } },
  },
  { kind: 'taken', key: 'k.1', number: 3 },
  { kind: 'abort', key: 'k.1' },
  { kind: 'ping', client: 'client/c', number: 9 },
  { kind: 'explain', client: 'client/c', key: 'k.1', ask: 4 },
  {
    ...{ kind: 'output', key: 'k.1', stage: 'a', number: 1 },
    output: { tokens: TOKENS, extras: EXTRAS, finishReason: null, stopReason: null },
  },
  { kind: 'ended', key: 'k.1', stage: 'a', numOutputs: 1, end: END },
  { kind: 'failed', key: 'k.1', stage: 'a', failure: { code: 'ERR_BLOCKSTEP_UNFIT', message: 'too long' } },
  { kind: 'pong', stage: 'a', number: 9, keys: ['k.1', 'k.2'], figures: FIGURES },
  { kind: 'explained', ask: 4, text: 'waits' },
];

function entryOf(messages: readonly PipelineMessage[]): Buffer {
  const packed = messages.map((message) => packer.pack(toWire(message)));
  return makeEntry(PLACE, packed, packer);
}

it('every message arrives as it was sent, with its place', () => {
  const entry = readEntry(entryOf(MESSAGES), packer);
  expect(entry).toEqual({ ...PLACE, messages: MESSAGES, numForeign: 0 });
});

it('typed arrays of every kind arrive as copies of their own', () => {
  const values = [Int8Array, Int16Array, Uint16Array, Uint32Array, Float64Array, Uint8ClampedArray].map(
    (Kind) => Kind.of(1, 2, 100),
  );
  // The values follow a text of odd length, as in messages.
  const bytes = packer.pack(['odd', ...values, BigInt64Array.of(-5n)]);
  const [[, ...back]] = packer.unpack(bytes) as [unknown[]];
  bytes.fill(0);
  expect(back).toEqual([...values, BigInt64Array.of(-5n)]);
});

it('a mark is a number without a message, and no foreign one', () => {
  const bytes = makeEntry(PLACE, [makeMark(packer), packer.pack(toWire(MESSAGES[4]))], packer);
  expect(readEntry(bytes, packer)).toMatchObject({ messages: [null, MESSAGES[4]], numForeign: 0 });
});

it('what cannot be packed is refused, and a field that is undefined is left out', () => {
  const endless: { self?: unknown } = {};
  endless.self = endless;
  for (const value of [endless, () => {}, Symbol('x')]) expect(() => packer.pack({ value })).toThrow();
  expect(packer.unpack(packer.pack({ maxTokens: undefined, params: [undefined] }))).toEqual([
    { params: [null] },
  ]);
});

it('a list or an object that says it is longer than any message is refused before there is room made for it', () => {
  for (const kind of [0xdd, 0xdf])
    expect(() => packer.unpack(Uint8Array.of(kind, 0, 0x20, 0, 0))).toThrow(/max length/i);
});

it('arrays that come in a Buffer of others do not change with it', () => {
  const buffer = Buffer.from(packer.pack([Int16Array.of(1, 2), Uint8Array.of(3)]));
  const [[numbers, bytes]] = packer.unpack(buffer) as [[Int16Array, Uint8Array]];
  buffer.fill(0);
  expect(numbers).toEqual(Int16Array.of(1, 2));
  expect(bytes.slice()).not.toBeInstanceOf(Buffer);
});

it.each([
  ['no list', 'text'],
  ['a sender that is no text', [5, 'i', 1, 1]],
  ['a life that is no text', ['s', null, 1, 1]],
  ['an epoch that is no count', ['s', 'i', -1, 1]],
  ['a number that is no count', ['s', 'i', 1, 1.5]],
  ['a number before the first', ['s', 'i', 1, 0]],
])('an entry whose place is %s is foreign', (_what, place) => {
  const bytes = Buffer.concat([Uint8Array.of(1), packer.pack(place), packer.pack(toWire(MESSAGES[4]))]);
  expect(readEntry(bytes, packer)).toBeNull();
});

it('the error of a failure stays at home, and a code that is not known here becomes a general one', () => {
  const failure = { code: 'ERR_BLOCKSTEP_STAGE', message: 'x', error: new Error('x') } as never;
  expect(fromWire(toWire({ kind: 'failed', key: 'k', stage: 'a', failure }))).toEqual({
    ...{ kind: 'failed', key: 'k', stage: 'a' },
    failure: { code: 'ERR_BLOCKSTEP_STAGE', message: 'x' },
  });
  expect(fromWire([8, 'k', 'a', 'ERR_OF_2031', 'new'])).toMatchObject({
    failure: { code: 'ERR_BLOCKSTEP_REQUEST' },
  });
});

it('each part of each message is checked: anything else in its place makes no message', () => {
  // Where any object, any text or null is right, and no check can know better.
  const free = new Set(['submit.7', 'chunk.5']);
  const junk = [undefined, -1, 1.5, {}, [1], true, new Int8Array(2)];
  for (const message of MESSAGES) {
    const wired = toWire(message);
    for (let i = 0; i < wired.length; i++) {
      for (const value of junk) {
        const changed = [...wired];
        changed[i] = value;
        const isFree = free.has(`${message.kind}.${i - 1}`) && typeof value === 'object';
        const isFlag = typeof wired[i] === 'boolean' && typeof value === 'boolean';
        const isReason = message.kind === 'output' && i === 7 && typeof value === 'number';
        if (isFree || isFlag || isReason) continue;
        expect(fromWire(changed), `${message.kind}, part ${i}, ${String(value)}`).toBeNull();
      }
    }
    expect(fromWire(wired.slice(0, -1)), message.kind).toBeNull();
  }
});

it('what is foreign, newer, cut or changed anywhere is never thrown', () => {
  const random = new Random(5);
  const whole = entryOf(MESSAGES);
  const newer = Buffer.from(whole);
  newer[0] = 2;
  expect(readEntry(newer, packer)).toBeNull();
  for (const value of [undefined, null, 'text', Buffer.alloc(0), Buffer.of(1), Buffer.from('hello')])
    expect(readEntry(value, packer)).toBeNull();
  // An array of 4 thousand millions of entries that are not there.
  expect(readEntry(Buffer.from([1, 0xdd, 255, 255, 255, 255]), packer)).toBeNull();
  let numDamaged = 0;
  for (let i = 0; i < 3000; i++) {
    const bytes = Buffer.from(
      whole.subarray(0, random.chance(30) ? random.below(whole.length) : whole.length),
    );
    for (let n = random.below(4); n > 0 && bytes.length > 0; n--)
      bytes[random.below(bytes.length)] = random.below(256);
    const entry = readEntry(bytes, packer);
    if (entry === null || entry.numForeign > 0) numDamaged++;
  }
  expect(numDamaged).toBeGreaterThan(1000);
});
