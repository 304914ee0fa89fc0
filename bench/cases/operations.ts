// Adding, allocating, hitting, releasing one request of 2,048 tokens; `explain` and `stats` of a
// long queue.
import { PendingOp, slotOf } from '../../src/core/core.js';
import { Engine, Scheduler } from '../../src/index.js';
import { type Effort, measure, type Subject } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';
import { BLOCKS, Pool, TOKENS } from '../workloads/pool.js';
import { BLOCK_SIZE, HASH_SEED, Prompts } from '../workloads/workloads.js';

export const OPERATIONS_EFFORT: Effort = { samples: 4000, warmup: 1000 };

const POOLS = { '10k': 10_000, '100k': 100_000, '1M': 2 ** 20 };

/**
 * The operations of one request of 2,048 tokens, each one or two calls through Node-API. Successive
 * requests differ, so the whole pool is used block by block. The processor's caches are as cold as
 * the size of the pool makes them.
 */
export function benchOperations(effort: Effort): Row[] {
  const rows: Row[] = [];
  for (const [label, numBlocks] of Object.entries(POOLS)) {
    for (const queue of ['empty', 'cached'] as const) {
      const pool = new Pool(numBlocks, queue, true);
      const where = `${label} ${queue}`;
      rows.push(timeRow('operations', `cold allocate, ${where}`, measure(coldAllocate(pool), effort)));
      rows.push(timeRow('operations', `release, ${where}`, measure(release(pool), effort)));
      // Last, because it evicts nothing: it leaves the pool as it found it.
      rows.push(timeRow('operations', `full hit, ${where}`, measure(fullHit(pool), effort)));
      pool.check();
    }
  }
  return [...rows, ...benchAdd(effort), ...benchInspection(effort)];
}

/** `explain` and `stats` of an engine with a long queue. Each should cost less than a millisecond. */
function benchInspection({ warmup }: Effort): Row[] {
  const rows: Row[] = [];
  const length = 100_000;
  const name = `${length.toLocaleString('en')} waiting`;
  for (const policy of ['fcfs', 'priority'] as const) {
    const executor = { execute: () => new Promise<never>(() => {}), usesTables: false };
    const options = { numBlocks: 1000, blockSize: BLOCK_SIZE, hashSeed: HASH_SEED };
    const engine = new Engine({ ...options, maxNumSeqs: 16, policy, executor });
    const prompts = new Prompts(40);
    for (let i = 0; i < length; i++)
      engine
        .submit({ id: `r${i}`, prompt: prompts.next(40), maxTokens: 8 })
        .result()
        .catch(() => {});
    engine.step();
    const rarely = { samples: 200, warmup: Math.min(warmup, 20) };
    const ask = (what: () => unknown): Subject => ({
      run: () => {
        what();
        return undefined;
      },
    });
    const last = `r${length - 1}`;
    const explained = measure(
      ask(() => engine.explain(last)),
      rarely,
    );
    rows.push(timeRow('operations', `explain the last, ${policy}, ${name}`, explained));
    rows.push(
      timeRow(
        'operations',
        `stats, ${policy}, ${name}`,
        measure(
          ask(() => engine.scheduler.stats()),
          rarely,
        ),
      ),
    );
    engine.dispose();
  }
  return rows;
}

/** Adding a request, with and without hashing: the native part, and all of `Scheduler.add`. */
function benchAdd(effort: Effort): Row[] {
  const hashing = new Pool(1000, 'empty', true);
  const plain = new Pool(1000, 'empty', false);
  const rows = [
    timeRow('operations', 'native add, hashing', measure(nativeAdd(hashing), effort)),
    timeRow('operations', 'native add, caching off', measure(nativeAdd(plain), effort)),
  ];
  const options = { numBlocks: 1000, blockSize: BLOCK_SIZE, hashSeed: HASH_SEED };
  for (const enablePrefixCaching of [true, false]) {
    const scheduler = new Scheduler({ ...options, enablePrefixCaching });
    const name = `Scheduler.add, ${enablePrefixCaching ? 'hashing' : 'caching off'}`;
    rows.push(timeRow('operations', name, measure(schedulerAdd(scheduler), effort)));
    scheduler.dispose();
  }
  hashing.check();
  plain.check();
  return rows;
}

/** Takes 128 blocks for a new prompt and publishes them. */
function coldAllocate(pool: Pool): Subject {
  const { native } = pool.core;
  let slot = 0;
  return {
    before: () => {
      slot = pool.addNew();
    },
    run: () => {
      native.admit(slot, 0, TOKENS, TOKENS, TOKENS);
      return undefined;
    },
    after: () => pool.end(slot),
  };
}

/** Gives 128 blocks back. */
function release(pool: Pool): Subject {
  const { core } = pool;
  let slot = 0;
  return {
    before: () => {
      slot = pool.addNew();
      core.native.admit(slot, 0, TOKENS, TOKENS, TOKENS);
      if (pool.queue === 'empty') core.push(PendingOp.evict, slot, 0);
      core.flush();
    },
    run: () => {
      core.push(PendingOp.release, slot, 0);
      core.flush();
      return undefined;
    },
    after: () => pool.end(slot),
  };
}

/** Finds all 128 blocks of a prompt in the free queue and takes them out of its middle. */
function fullHit(pool: Pool): Subject {
  const { native } = pool.core;
  const prompts = pool.cachePrompts();
  let turn = 0;
  let slot = 0;
  return {
    before: () => {
      slot = pool.add(prompts[turn++ % prompts.length]);
    },
    run: () => {
      const hits = native.match(slot, BLOCKS);
      native.admit(slot, hits, TOKENS, TOKENS, TOKENS);
      if (hits !== BLOCKS) throw new Error(`hit ${hits} blocks, expected ${BLOCKS}`);
      return undefined;
    },
    after: () => pool.close(slot),
  };
}

function nativeAdd(pool: Pool): Subject {
  const prompts = new Prompts(TOKENS);
  let prompt = prompts.next(TOKENS);
  let handle = 0;
  return {
    before: () => {
      prompt = prompts.next(TOKENS);
    },
    run: () => {
      handle = pool.core.native.add(prompt, '', '');
      return undefined;
    },
    after: () => pool.close(slotOf(handle)),
  };
}

function schedulerAdd(scheduler: Scheduler): Subject {
  const prompts = new Prompts(TOKENS);
  let prompt = prompts.next(TOKENS);
  let id = '';
  let count = 0;
  return {
    before: () => {
      prompt = prompts.next(TOKENS);
      id = `add-${count++}`;
    },
    run: () => {
      scheduler.add({ id, prompt, maxTokens: 256, eosTokenId: 2 });
      return undefined;
    },
    after: () => {
      scheduler.abort(id);
      scheduler.schedule();
    },
  };
}
