import { mix } from '../../base/random.js';
import type { Executor, ExecutorPlan, ExecutorResult } from '../../engine/executor/executor.js';
import type { KvView } from '../../scheduler/connector/kv-view.js';
import { type KvViewGroup, skippedTokens } from '../../scheduler/connector/view-group.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import { BlockArena } from '../../transfer/block-arena.js';

/** One entry of a step: what it computes, and where its KV lies. */
interface Entry {
  readonly id: string;
  /** Tokens that are computed before the step, and with it. */
  readonly from: number;
  readonly to: number;
  readonly samples: boolean;
  /** What all tokens up to each token come to: item i is about the first i tokens. */
  readonly sums: readonly number[];
  /** Places by group. */
  readonly rows: readonly Int32Array[];
}

/** The KV memory of one rank. */
interface Rank {
  readonly kv: BlockArena;
  readonly words: Int32Array;
  readonly numFaults: 0;
  readonly faults: readonly [];
}

/** The token that follows a text. */
function nextToken(sum: number): number {
  return 10 + (mix(sum, 5) % 21);
}

/** What a model of `GroupExecutors` answers to a prompt. */
export function groupText(prompt: Int32Array, numTokens: number): Int32Array {
  let sum = prompt.reduce((before, token) => mix(before, token), 1);
  return Int32Array.from({ length: numTokens }, () => {
    const token = nextToken(sum);
    sum = mix(sum, token);
    return token;
  });
}

/**
 * Stands in for a model with several KV cache groups, on every rank. Each token writes a word of its own into the block of each group; a
 * group of states has a word for all tokens up to the end of what its block was written for. Before a step writes, it reads every word that
 * its tokens need in every group, and says which one is wrong. The next token follows from all tokens before it.
 *
 * Plans name no blocks, so the rows are read from a connector's view: `planned` is to be called for each plan.
 */
export class GroupExecutors implements Executor {
  readonly usesTables = false;
  readonly ranks: readonly Rank[];
  trouble: string | null = null;
  /** Where the places of each group are; null until a connector was bound. */
  #view: KvView | null = null;
  readonly #wordsPerBlock: number;
  readonly #planned = new Map<number, readonly Entry[]>();
  /** By rank: the steps that were not computed yet, the oldest one first. */
  readonly #waiting: { readonly step: number; compute: () => void }[][];

  /** @param blockSize most tokens of a block in any group */
  constructor(numBlocks: number, blockSize: number, numRanks: number) {
    this.#wordsPerBlock = blockSize;
    this.#waiting = Array.from({ length: numRanks }, () => []);
    this.ranks = this.#waiting.map(() => {
      const kv = BlockArena.allocate({ numBlocks, bytesPerBlock: 4 * blockSize });
      return { kv, words: new Int32Array(kv.buffer), numFaults: 0, faults: [] };
    });
  }

  bind(view: KvView): void {
    this.#view = view;
  }

  /** Notes what a plan will compute. Call it while the plan is made, when its blocks are known. */
  planned(plan: Plan): void {
    const view = this.#view;
    if (view === null || plan.totalTokens === 0) return;
    const entries = Array.from({ length: plan.numRequests }, (_, i): Entry => {
      const request = plan.requests[i];
      const from = plan.numComputedTokens[i];
      const to = from + plan.numScheduledTokens[i];
      const tokens = view.tokens(request);
      const sums = [1];
      // What steps in flight will bring follows from what is there.
      for (let at = 0; at < to; at++)
        sums.push(mix(sums[at], at < tokens.length ? tokens[at] : nextToken(sums[at])));
      const rows = view.blocks(request).map((row) => row.slice());
      return { id: request.id, from, to, samples: plan.maxOutputTokens[i] > 0, sums, rows };
    });
    this.#planned.set(plan.step, entries);
  }

  /** The oldest step that a rank has still to compute; Infinity: none. */
  firstWaiting(rank: number): number {
    return this.#waiting[rank][0]?.step ?? Number.POSITIVE_INFINITY;
  }

  /** Computes a rank's oldest step. @returns false if there is none */
  compute(rank: number): boolean {
    const next = this.#waiting[rank].shift();
    next?.compute();
    return next !== undefined;
  }

  async execute({ step }: ExecutorPlan): Promise<ExecutorResult> {
    const entries = this.#planned.get(step) ?? [];
    this.#planned.delete(step);
    const done = this.ranks.map(
      (_, rank) =>
        new Promise<void>((resolve) => {
          const compute = (): void => {
            for (const entry of entries) this.#compute(rank, step, entry);
            resolve();
          };
          this.#waiting[rank].push({ step, compute });
        }),
    );
    await Promise.all(done);
    const counts = Int32Array.from(entries, ({ samples }) => Number(samples));
    const tokens = entries.filter(({ samples }) => samples).map(({ sums, to }) => nextToken(sums[to]));
    return { tokens: Int32Array.from(tokens), counts };
  }

  dispose(): void {
    for (const { kv } of this.ranks) kv.dispose();
  }

  #compute(rank: number, step: number, entry: Entry): void {
    for (const [g, group] of (this.#view?.groups ?? []).entries()) {
      const act = group.type === 'mamba' ? this.#computeState : this.#computeTokens;
      const wrong = act.call(this, rank, entry, g, group);
      if (wrong !== null)
        this.trouble ??= `rank ${rank}, step ${step}: ${entry.id} reads wrong KV in group ${g} (${group.type}): ${wrong}`;
    }
  }

  #computeTokens(
    rank: number,
    { from, to, sums, rows }: Entry,
    g: number,
    group: KvViewGroup,
  ): string | null {
    let wrong: string | null = null;
    for (let p = skippedTokens(group, from); p < to; p++) {
      const block = rows[g][Math.floor(p / group.blockSize)] ?? 0;
      const at = block * this.#wordsPerBlock + (p % group.blockSize);
      const word = wordOf(sums[p + 1], g, rank);
      if (block === 0) wrong ??= `no block for position ${p}`;
      else if (p >= from) this.ranks[rank].words[at] = word;
      else if (this.ranks[rank].words[at] !== word) wrong ??= `position ${p} in block ${block}`;
    }
    return wrong;
  }

  /** The state behind the last token, and with `all` the one at the end of each block. */
  #computeState(rank: number, { from, to, sums, rows }: Entry, g: number, group: KvViewGroup): string | null {
    const { words } = this.ranks[rank];
    const place = (tokens: number): number => rows[g][Math.floor((tokens - 1) / group.blockSize)] ?? 0;
    const right = wordOf(sums[from], g, rank);
    const isWrong = from > 0 && (place(from) === 0 || words[place(from) * this.#wordsPerBlock] !== right);
    for (let tokens = from + 1; tokens <= to; tokens++) {
      const isKept = tokens === to || (group.mode === 'all' && tokens % group.blockSize === 0);
      if (isKept && place(tokens) !== 0)
        words[place(tokens) * this.#wordsPerBlock] = wordOf(sums[tokens], g, rank);
    }
    return isWrong ? `the state behind ${from} tokens in block ${place(from)}` : null;
  }
}

function wordOf(sum: number, group: number, rank: number): number {
  return mix(sum, 16 * rank + group) | 0;
}
