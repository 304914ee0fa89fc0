// The cost in time of the rules in which versions of vLLM differ (`npm run bench:rules -- --cost`).
import { Random } from '../src/base/random.js';
import { Core, PendingOp, slotOf } from '../src/core/core.js';
import { hashSeedBytes } from '../src/scheduler/options/hash-seed.js';
import type { SchedulerOptions } from '../src/scheduler/options/options.js';
import { Stopwatch } from './connectors/support/processor-time.js';
import { printTable } from './connectors/support/table.js';
import { BLOCK_SIZE, type DecodeVariant, HASH_SEED, makeDecode, Prompts } from './workloads/workloads.js';

/** Turns, in each of which every compared set of rules is measured once, and calls in one turn. */
const TURNS = 80;
const STEPS = 60;
const RELEASES = 200;
const WARM_UP = 20;

const REQUESTS = 256;
/** Blocks of the longest row that is given back; the others have up to 64 fewer. */
const LONGEST = 160;

/** May occurs twice: the distance of the second from 1.00 shows the precision of the figures. */
const VERSIONS: Readonly<Record<string, Partial<SchedulerOptions>>> = {
  May: { like: '28be48fa' },
  defaults: {},
  August: { like: '017e9f444' },
  'May again': { like: '28be48fa' },
};

/** Calls something so many times; the work before it is not timed. */
type Turn = () => number;

/**
 * Prints what the rules of August cost in time, beside May's in the same run. It measures a decode
 * step, and the return of a row of 128 blocks on average. It is processor time of the thread, by
 * turns, so that what else the machine does counts little.
 */
export function printCosts(): void {
  const steps: [string, DecodeVariant][] = [
    ['decode step of 256', {}],
    ['the same with 3 drafts each', { drafts: 3 }],
    ['the same at depth 2', { pipelineDepth: 2 }],
  ];
  const rows = steps.map(([name, variant]) =>
    compared(
      name,
      Object.values(VERSIONS).map((rules) => stepTurn({ ...variant, rules })),
    ),
  );
  printTable(['processor time', ...Object.keys(VERSIONS)], rows);
  const releases = [0, 1, LONGEST].map((plain) =>
    compared(
      `release of a row, ${plain === LONGEST ? 'all' : plain} of its blocks without a hash`,
      (['tail', 'tail', 'unhashedFirst'] as const).map((order) => releaseTurn(order, plain)),
    ),
  );
  printTable(['processor time', 'tail', 'tail again', 'unhashedFirst'], releases);
}

/** Measures by turns. @returns the times of May in microseconds, and the others as multiples of them: the middle one of all turns */
function compared(name: string, turns: readonly Turn[]): string[] {
  for (let i = 0; i < WARM_UP; i++) for (const turn of turns) turn();
  const times = turns.map(() => [] as number[]);
  for (let i = 0; i < TURNS; i++) {
    // Another contender comes first in each turn.
    for (let j = 0; j < turns.length; j++) {
      const at = (i + j) % turns.length;
      times[at].push(turns[at]());
    }
  }
  const [first, ...others] = times;
  const ratios = others.map((list) => middle(list.map((time, i) => time / first[i])).toFixed(2));
  return [name, `${middle(first).toFixed(2)} µs`, ...ratios];
}

function middle(list: readonly number[]): number {
  return list.toSorted((a, b) => a - b)[list.length >> 1];
}

function stepTurn(variant: DecodeVariant): Turn {
  const { scheduler, step } = makeDecode(REQUESTS, (WARM_UP + TURNS) * STEPS + 2, variant);
  return () => {
    const watch = new Stopwatch();
    watch.run(() => {
      for (let i = 0; i < STEPS; i++) step();
    });
    const { numRunning, numPreemptions } = scheduler.stats();
    if (numRunning !== REQUESTS || numPreemptions > 0) throw new Error('requests ended, or were preempted');
    return watch.spent / STEPS;
  };
}

/**
 * Rows of 96 to 160 blocks in a pool that has been used for long. So the blocks of a row lie
 * anywhere, as in an engine, whatever the order is.
 * @param plain how many blocks of each row carry no hash: the last ones
 */
function releaseTurn(freeOrder: 'tail' | 'unhashedFirst', plain: number): Turn {
  const core = new Core({
    numBlocks: LONGEST * (RELEASES + 2),
    blockSize: BLOCK_SIZE,
    numRows: RELEASES,
    maxBlocksPerRow: 2 * LONGEST,
    maxEntries: 16,
    maxModelLen: 2 * LONGEST * BLOCK_SIZE,
    enablePrefixCaching: true,
    hashSeed: hashSeedBytes(HASH_SEED),
    freeOrder,
  });
  const prompts = new Prompts(LONGEST * BLOCK_SIZE);
  const random = new Random(1);
  return () => {
    const slots = Array.from({ length: RELEASES }, () => {
      const blocks = LONGEST - random.below(65);
      const tokens = blocks * BLOCK_SIZE;
      const slot = slotOf(core.native.add(prompts.next(tokens), '', ''));
      core.native.admit(slot, 0, tokens, tokens, Math.max(blocks - plain, 0) * BLOCK_SIZE);
      return slot;
    });
    core.flush();
    // They end in another order than they came in.
    for (let i = slots.length - 1; i > 0; i--) {
      const j = random.below(i + 1);
      [slots[i], slots[j]] = [slots[j], slots[i]];
    }
    const watch = new Stopwatch();
    watch.run(() => {
      for (const slot of slots) {
        core.push(PendingOp.release, slot, 0);
        core.flush();
      }
    });
    for (const slot of slots) core.push(PendingOp.close, slot, 0);
    core.flush();
    return watch.spent / RELEASES;
  };
}
