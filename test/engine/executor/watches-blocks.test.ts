// An executor with `watchesBlocks` can follow from plans alone what every block holds.
import { describe, expect, it } from 'vitest';
import {
  EntryKind,
  type ExecutorPlan,
  type Plan,
  type StepInputs,
  type StepTables,
} from '../../../src/index.js';
import { letGoBy } from '../../../src/scheduler/plan/let-go.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { ViewingConnector } from '../../support/connector/viewing-connector.js';
import { EngineBench, FakeExecutor, prompt } from '../../support/engine-bench.js';
import { schedulerOf } from '../../support/scheduler-of.js';
import { AttentiveExecutor, moody } from './attentive-executor.js';
import { AttentiveLife } from './attentive-life.js';

/**
 * The knowledge that an executor that watches blocks can have from plans alone. It knows the text
 * whose KV each full block holds, as long as a later request may find it there.
 */
class Mirror {
  /** By block: the text up to the end of the block. */
  readonly findable = new Map<number, string>();
  readonly wrong: string[] = [];
  numHits = 0;
  numHeld = 0;
  /** By slot of the KV memory: the text up to its token. */
  readonly #texts: string[] = [];
  readonly #blockSize: number;
  /** Requests that were in a plan: a session may hold blocks when it comes again. */
  readonly #seen = new Set<number>();

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  /**
   * A step: first what is gone, then its entries in order, since one may hit what another one computes.
   * @param published the blocks that the core would find now; null where blocks may wait for the
   * token that completes them
   */
  step(plan: ExecutorPlan, tables: StepTables, inputs: StepInputs, published: Int32Array | null): void {
    for (const block of plan.forgottenBlocks) this.findable.delete(block);
    for (const block of plan.takenBlocks) this.findable.delete(block);
    if (published !== null) this.#checkRest(plan, new Set(published));
    for (let i = 0; i < plan.numRequests; i++) {
      const { handle } = plan.requests[i];
      const comesNew = plan.kinds[i] === EntryKind.resumed || !this.#seen.has(handle);
      if (comesNew) this.#checkHits(plan, tables, i);
      this.#seen.add(handle);
      this.#write(tables, inputs, i);
    }
  }

  /** Every block that the mirror holds can be found. */
  #checkRest({ step }: ExecutorPlan, published: ReadonlySet<number>): void {
    this.numHeld += this.findable.size;
    for (const block of this.findable.keys())
      if (!published.has(block)) this.wrong.push(`step ${step}: nobody can find block ${block}`);
  }

  #checkHits(plan: ExecutorPlan, tables: StepTables, entry: number): void {
    const text = new Int32Array(plan.numHitBlocks[entry] * this.#blockSize);
    tables.readTokens(entry, 0, text);
    for (let at = 0; at < plan.numHitBlocks[entry]; at++) {
      const block = tables.blockTable[entry * tables.maxBlocksPerRow + at];
      const expected = `,${text.subarray(0, (at + 1) * this.#blockSize).join()}`;
      const found = this.findable.get(block);
      this.numHits++;
      if (found !== expected)
        this.wrong.push(`step ${plan.step}: ${plan.requests[entry].id} hits block ${block}: ${found}`);
    }
  }

  #write({ blockTable, maxBlocksPerRow }: StepTables, inputs: StepInputs, entry: number): void {
    const size = this.#blockSize;
    for (let at = inputs.queryStart[entry]; at < inputs.queryStart[entry + 1]; at++) {
      const position = inputs.positions[at];
      const before = position - 1;
      const row = entry * maxBlocksPerRow;
      const slotBefore = blockTable[row + Math.floor(before / size)] * size + (before % size);
      const text = `${position === 0 ? '' : this.#texts[slotBefore]},${inputs.tokens[at]}`;
      this.#texts[inputs.slots[at]] = text;
      if (position % size === size - 1) this.findable.set(Math.floor(inputs.slots[at] / size), text);
    }
  }
}

function watchedLife(seed: number, failing: number): { life: AttentiveLife; mirror: () => Mirror } {
  let mirror!: Mirror;
  const life = new AttentiveLife(
    seed,
    (shape, random) => {
      mirror = new Mirror(shape.blockSize);
      const executor = new AttentiveExecutor(shape, { watchesBlocks: true });
      executor.mood = moody(random, failing);
      executor.loses = () => (failing > 0 && random.chance(3) ? [1 + random.below(shape.numBlocks - 1)] : []);
      executor.onInputs = (plan, tables, inputs) => {
        const { core, config } = life.engine.scheduler;
        mirror.step(plan, tables, inputs, config.pipelineDepth === 1 ? core.published() : null);
      };
      return executor;
    },
    { resets: 20 },
  );
  return { life, mirror: () => mirror };
}

// Pinned by: `forget.ts` and its callers, `reportBlocks` (schedule.ts), `keep` and `addTo` (notices.ts).
describe('an executor that watches blocks', () => {
  it.each([0, 40])(
    'knows of every hit what the block holds (of a thousand steps %i fail)',
    async (failing) => {
      const wrong: string[] = [];
      let numHits = 0;
      let numHeld = 0;
      for (let seed = 0; seed < 45; seed++) {
        const { life, mirror } = watchedLife(seed, failing);
        await life.run(160);
        wrong.push(...mirror().wrong.map((what) => `seed ${seed}: ${what}`));
        for (const what of await life.wrongTexts()) wrong.push(`seed ${seed}: ${what}`);
        numHits += mirror().numHits;
        numHeld += mirror().numHeld;
        life.engine.dispose();
      }
      expect(wrong).toEqual([]);
      expect(numHits).toBeGreaterThan(500);
      expect(numHeld).toBeGreaterThan(5000);
    },
  );
});

describe('what a plan says of blocks', () => {
  /**
   * A bench whose executor watches blocks. @returns also the blocks in each plan: taken and
   * forgotten ones
   */
  function watched(options: object = {}): {
    bench: EngineBench;
    said: { taken: number[]; forgotten: number[] }[];
  } {
    const executor = Object.assign(new FakeExecutor(true), { watchesBlocks: true });
    const said: { taken: number[]; forgotten: number[] }[] = [];
    executor.onExecute = ({ takenBlocks, forgottenBlocks }) => {
      said.push({ taken: [...takenBlocks], forgotten: [...forgottenBlocks] });
    };
    const bench = new EngineBench({ executor, ...options });
    return { bench: Object.assign(bench, { executor }), said };
  }

  it('a session drops the last token of its answer: the block that a step in flight completed with it is forgotten', async () => {
    const { bench, said } = watched({ pipelineDepth: 2 });
    // The session generates 600, then 700, which ends the answer; the step behind that has computed
    // 700 at position 7.
    const session = bench.submit({ prompt: prompt(6), maxTokens: 9, stopTokenIds: [700], resumable: true });
    bench.steps();
    await bench.executor.deliver(2);
    bench.steps();
    const [, second] = bench.engine.scheduler.core.blocks(session.handle % 2 ** 21);
    session.addChunk({ prompt: prompt(2, 1), maxTokens: 1 });
    await bench.finish();
    expect(said.filter(({ forgotten }) => forgotten.includes(second)).length).toBe(1);
    session.endInput();
    await bench.finish();
  });

  it('blocks of a load are taken, also where the plan that begins it has nothing to execute; so is what was forgotten until then', async () => {
    const connector = new ScriptedConnector({ a: { ext: 8, async: true, oneshot: true } });
    const { bench, said } = watched({ connector });
    bench.submit({ id: 'before', prompt: prompt(9, 1), maxTokens: 1 });
    await bench.finish();
    const cached = [...bench.engine.scheduler.core.published()];
    expect(cached.length).toBe(2);
    bench.engine.resetPrefixCache();
    const a = bench.submit({ id: 'a', prompt: prompt(13) });
    bench.steps();
    expect(said.length).toBe(1);
    const loaded = [...bench.engine.scheduler.core.blocks(a.handle % 2 ** 21)];
    schedulerOf(bench.engine).updateTransfers({ finishedReceiving: [{ handle: a.handle }] });
    bench.steps();
    expect(said.length).toBe(2);
    expect(said[1].forgotten.sort()).toEqual(cached.sort());
    expect(said[1].taken).toEqual(expect.arrayContaining(loaded));
    await bench.finish();
  });

  it('names what an empty plan let go behind what the plan itself let go, whose requests are known', async () => {
    const connector = new ViewingConnector({ r: { delayAbort: true } });
    const kvGroups = [{ type: 'sliding', window: 4 }];
    const { bench } = watched({ connector, kvGroups, pipelineDepth: 2 });
    const { engine, executor } = bench;
    bench.submit({ id: 'r', prompt: prompt(15, 1) });
    const session = bench.submit({ prompt: prompt(15), maxTokens: 1, resumable: true });
    engine.step();
    engine.abort('r');
    // The answer of the session is in flight, so there is nothing to compute.
    expect(engine.step().scheduledTokens).toBe(0);
    await executor.deliver();
    engine.step();
    const blocks = engine.scheduler.core.blocks(session.handle % 2 ** 21).slice(0, 3);
    session.addChunk({ prompt: prompt(2, 2), maxTokens: 1 });
    let plan: Plan | undefined;
    connector.onMetadata = (made) => {
      plan = made;
    };
    expect(engine.step().scheduledTokens).toBe(2);
    const { droppedBlocks = [] } = plan ?? {};
    // Three of the session, and two of r, whose last two its connector keeps.
    expect(droppedBlocks.length).toBe(5);
    expect(letGoBy(plan as Plan).map(({ slot, place }) => [slot, place])).toEqual([
      ...[2, 1, 0].map((place) => [session.handle % 2 ** 21, place]),
    ]);
    expect([...droppedBlocks.slice(0, 3)].sort()).toEqual([...blocks].sort());
    session.endInput();
    await bench.finish();
    engine.dispose();
  });

  it('is nothing where nobody watches', async () => {
    const bench = new EngineBench({}, true);
    const said: number[] = [];
    bench.executor.onExecute = (plan) =>
      void said.push(plan.takenBlocks.length + plan.forgottenBlocks.length);
    bench.submit();
    bench.engine.resetPrefixCache();
    await bench.finish();
    expect(said).toEqual(said.map(() => 0));
    expect(bench.engine.scheduler.config.reportBlocks).toBe(false);
  });
});
