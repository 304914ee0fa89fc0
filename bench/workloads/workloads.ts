// The measured batches of decodes, and their prompts.
import { type Plan, Scheduler, type SchedulerOptions } from '../../src/index.js';
import { EndlessConnector, TRANSFERRED } from './connector.js';
import { Random } from './random.js';

export const BLOCK_SIZE = 16;

/** Key of the block hash, the same in every run. */
export const HASH_SEED = 1;

/** The end-of-text token. It is compared with every sampled token and never sampled, so that requests go on. */
const EOS = 2;
const SAMPLED = 7;
const VOCABULARY = 128_000;

/** As many prompts as are asked for, no two with a common first block. They share their random numbers, which are drawn once. */
export class Prompts {
  readonly #bank: Int32Array;
  #count = 0;

  constructor(longest: number) {
    const random = new Random(1);
    this.#bank = Int32Array.from({ length: longest }, () => random.below(VOCABULARY));
  }

  /**
   * The next prompt. It is valid until the next call; a caller that keeps it must copy it, as `add`
   * does.
   */
  next(length: number): Int32Array {
    this.#bank[0] = this.#count++;
    return this.#bank.subarray(0, length);
  }

  /** Prompt number `index` again. */
  at(index: number, length: number): Int32Array {
    this.#bank[0] = index;
    return this.#bank.subarray(0, length);
  }
}

/** How a batch of decodes differs from the plain case. */
export interface DecodeVariant {
  pipelineDepth?: 1 | 2;
  /** Drafts verified per request and step; 0, 1, 2, ... of them accepted in turn. Default 0. */
  drafts?: number;
  /** Every block that is taken evicts a cached one, as in an engine that has run for a while. Default false: the cache is empty. */
  evicting?: boolean;
  /** Additional requests with transfers in flight: half of them wait for a load, half have ended and are being sent. Default 0. */
  transfers?: number;
  /** The place of the state. Default: on the host alone. */
  backend?: 'host' | 'cuda';
  /** The side that decides; the caller waits for a GPU in place. Default: the host. */
  authority?: 'host' | 'device';
  /** KV cache groups. Default: one of full attention. */
  kvGroups?: NonNullable<SchedulerOptions['kvGroups']>;
  /** Rules of a version of vLLM. Default: those of a scheduler. */
  rules?: Partial<SchedulerOptions>;
}

/** A scheduler with requests in decode, and a step that allocates nothing itself. */
export interface Decode {
  scheduler: Scheduler;
  /** One whole step: schedule, update and, where there are drafts, their update. */
  step: () => undefined;
}

/**
 * Makes `numRequests` decodes, admitted and prefilled. Their prompts have 512 to 527 tokens, each
 * one token more than the one before. So in every step one request in 16 fills a block and takes
 * another. Within `numSteps` none ends and none is preempted.
 */
export function makeDecode(numRequests: number, numSteps: number, variant: DecodeVariant = {}): Decode {
  const { pipelineDepth = 1, drafts = 0, evicting = false, transfers = 0, backend, authority } = variant;
  const { kvGroups, rules = {} } = variant;
  const longest = 512 + BLOCK_SIZE + numSteps * (1 + drafts);
  const blocksEach = Math.ceil(longest / BLOCK_SIZE) + 1;
  // Options that are not asked for are not given: older builds do not know all of them.
  const scheduler = new Scheduler({
    numBlocks: (numRequests + transfers) * blocksEach * (kvGroups?.length ?? 1) + 1,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: numRequests + transfers,
    maxNumBatchedTokens: numRequests * blocksEach * BLOCK_SIZE,
    maxModelLen: blocksEach * BLOCK_SIZE,
    hashSeed: HASH_SEED,
    deadlines: false,
    ...(pipelineDepth > 1 && { pipelineDepth }),
    ...(drafts > 0 && { numSpeculativeTokens: drafts }),
    ...(transfers > 0 && { connector: new EndlessConnector() }),
    ...(kvGroups && { kvGroups }),
    ...(backend && { backend }),
    ...(authority && { authority }),
    ...rules,
  });
  if (authority === 'device') scheduler.schedule = () => scheduler.decided?.scheduleInPlace() as Plan;
  const prompts = new Prompts(blocksEach * BLOCK_SIZE);
  touchPool(scheduler, prompts, numRequests, blocksEach, evicting);
  for (let i = 0; i < transfers / 2; i++) {
    scheduler.add({ id: `send-${i}`, prompt: prompts.next(TRANSFERRED), maxTokens: 1 });
  }
  while (scheduler.numUnfinished > 0)
    scheduler.update(scheduler.schedule(), acceptances(numRequests, 1, 0)[0]);
  for (let i = 0; i < numRequests; i++) {
    const prompt = prompts.next(512 + (i % BLOCK_SIZE));
    scheduler.add({ id: `decode-${i}`, prompt, maxTokens: longest, eosTokenId: EOS });
  }
  for (let i = 0; i < transfers / 2; i++) {
    scheduler.add({ id: `load-${i}`, prompt: prompts.next(TRANSFERRED), maxTokens: 1 });
  }
  const one = acceptances(numRequests, 1, 0)[0];
  // Where steps must end at the end of a block, a prompt takes two.
  while (prefill(scheduler) > 0);
  if (pipelineDepth > 1) return { scheduler, step: pipelinedStep(scheduler, one) };
  if (drafts > 0) return { scheduler, step: draftedStep(scheduler, numRequests, drafts) };
  return { scheduler, step: plainStep(scheduler, one) };
}

/**
 * Uses every block once, so that no measured step pays for the first touch of a page of memory.
 * @param keepCached whether the cached blocks stay, to be evicted later; else the prefix cache is reset
 */
export function touchPool(
  scheduler: Scheduler,
  prompts: Prompts,
  numRequests: number,
  blocksEach: number,
  keepCached: boolean,
): void {
  for (let i = 0; i < numRequests; i++) {
    scheduler.add({ id: `touch-${i}`, prompt: prompts.next(blocksEach * BLOCK_SIZE - 1), maxTokens: 1 });
  }
  while (scheduler.hasWork()) prefill(scheduler);
  if (!keepCached && !scheduler.resetPrefixCache().ok) throw new Error('the pool is still in use');
}

/**
 * One step in which every entry that may sample has a token. @returns the number of entries without
 * a token
 */
function prefill(scheduler: Scheduler): number {
  const plan = scheduler.schedule();
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  scheduler.update(plan, { tokens: new Int32Array(counts.length).fill(SAMPLED), counts });
  return counts.filter((count) => count === 0).length;
}

interface FlatCounts {
  tokens: Int32Array;
  counts: Int32Array;
}

/** `numTurns` results; in each, entry i has 1 + (i + turn) % (most + 1) tokens. */
function acceptances(numRequests: number, numTurns: number, most: number): FlatCounts[] {
  const tokens = new Int32Array(numRequests * (1 + most)).fill(SAMPLED);
  return Array.from({ length: numTurns }, (_, turn) => ({
    tokens,
    counts: Int32Array.from({ length: numRequests }, (_, i) => 1 + ((i + turn) % (most + 1))),
  }));
}

function plainStep(scheduler: Scheduler, result: FlatCounts): () => undefined {
  return () => {
    scheduler.update(scheduler.schedule(), result);
  };
}

/** Schedules a step while the one before is in flight, then takes the result of that one. */
function pipelinedStep(scheduler: Scheduler, result: FlatCounts): () => undefined {
  let inFlight: Plan = scheduler.schedule();
  return () => {
    const next = scheduler.schedule();
    scheduler.update(inFlight, result);
    inFlight = next;
  };
}

function draftedStep(scheduler: Scheduler, numRequests: number, numDrafts: number): () => undefined {
  const results = acceptances(numRequests, numDrafts + 1, numDrafts);
  const drafts = {
    tokens: new Int32Array(numRequests * numDrafts).fill(SAMPLED),
    counts: new Int32Array(numRequests).fill(numDrafts),
  };
  const first = scheduler.schedule();
  scheduler.update(first, acceptances(numRequests, 1, 0)[0]);
  scheduler.updateDraftTokens(first, drafts);
  let turn = 0;
  return () => {
    const plan = scheduler.schedule();
    scheduler.update(plan, results[turn++ % results.length]);
    scheduler.updateDraftTokens(plan, drafts);
  };
}
