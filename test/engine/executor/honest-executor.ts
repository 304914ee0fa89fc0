import type {
  Executor,
  ExecutorLimits,
  ExecutorPlan,
  ExecutorResult,
  KvGroupOptions,
  StepTables,
} from '../../../src/index.js';

/** A group of this executor, with all its numbers given. */
export type Group = KvGroupOptions & { readonly blockSize: number };

const MODULUS = 32_003;

/** How a state goes on with a token. */
function nextState(state: number, token: number): number {
  return (31 * state + token + 1) % MODULUS;
}

/** The weight of the token at a position for a later one. */
function weight(position: number): number {
  return 1 + (position % 97);
}

/** The first position that the token at `position` attends to. */
function firstOf({ type, window = 0, chunk = 1 }: Group, position: number): number {
  if (type === 'sliding') return Math.max(0, position + 1 - window);
  return type === 'chunked' ? position - (position % chunk) : 0;
}

/** The token behind a text, computed without blocks. */
export function nextToken(groups: readonly Group[], text: readonly number[]): number {
  let sum = 0;
  for (const group of groups) {
    if (group.type === 'mamba') sum += text.reduce(nextState, 0);
    else for (let p = firstOf(group, text.length - 1); p < text.length; p++) sum += weight(p) * text[p];
  }
  return sum % MODULUS;
}

/**
 * An executor with KV cache groups, written from docs/executors.md alone. A group of attention
 * keeps one number for each token. A group of states keeps one for each block, and everything else
 * that it writes into the block is NaN. Attention multiplies whole blocks, with weight 0 behind the
 * text, as kernels do: there 0 x NaN is NaN.
 */
export class HonestExecutor implements Executor {
  readonly limits: ExecutorLimits & { readonly numBlocks: number };
  readonly watchesBlocks = true;
  /**
   * Blocks that plans reported as released, and blocks that left the row in which an entry had them
   * in the step before.
   */
  readonly dropped = new Set<number>();
  readonly left = new Set<number>();
  readonly #rows = new Map<number, number[]>();
  readonly #groups: readonly Group[];
  readonly #zeroes: boolean;
  readonly #memory: Float64Array;
  /** Numbers of a block, in every group. */
  readonly #size: number;

  constructor(numBlocks: number, groups: readonly Group[], zeroes = true) {
    this.limits = { numBlocks, kvGroups: groups };
    this.#groups = groups;
    this.#zeroes = zeroes;
    this.#size = Math.max(...groups.map(({ blockSize }) => blockSize));
    this.#memory = new Float64Array(numBlocks * this.#size);
  }

  execute(plan: ExecutorPlan, tables: StepTables | null): ExecutorResult {
    if (tables === null) throw new Error('this executor reads tables');
    this.#watch(plan, tables);
    if (this.#zeroes) for (const id of plan.blocksToZero ?? []) this.#block(id).fill(0);
    for (let i = 0; i < plan.numRequests; i++) {
      for (const [g, { type }] of this.#groups.entries()) {
        if (type === 'mamba') this.#writeStates(tables, g, i);
        else this.#writeTokens(tables, g, i);
      }
    }
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const tokens = [...counts.keys()].filter((i) => counts[i] > 0).map((i) => this.#sample(tables, i));
    return { tokens: Int32Array.from(tokens), counts };
  }

  requestsFinished(handles: readonly number[]): void {
    for (const handle of handles) this.#rows.delete(handle);
  }

  #block(id: number): Float64Array {
    return this.#memory.subarray(id * this.#size, (id + 1) * this.#size);
  }

  #row({ groups }: StepTables, g: number, entry: number): Int32Array {
    const { blockTable, maxBlocksPerRow } = groups[g];
    return blockTable.subarray(entry * maxBlocksPerRow, (entry + 1) * maxBlocksPerRow);
  }

  #writeTokens({ groups, queryStart, inputIds }: StepTables, g: number, entry: number): void {
    const { slotMapping, blockSize } = groups[g];
    for (let t = queryStart[entry]; t < queryStart[entry + 1]; t++) {
      const slot = Number(slotMapping[t]);
      this.#block(Math.floor(slot / blockSize))[slot % blockSize] = inputIds[t];
    }
  }

  #writeStates(tables: StepTables, g: number, entry: number): void {
    const { queryStart, inputIds, numComputedTokens } = tables;
    const { slotMapping, blockSize } = tables.groups[g];
    let position = numComputedTokens[entry];
    // A text begins with the state 0, whatever its block holds.
    const before = this.#row(tables, g, entry)[Math.floor((position - 1) / blockSize)];
    let state = position === 0 ? 0 : this.#block(before)[0];
    const end = queryStart[entry + 1];
    for (let t = queryStart[entry]; t < end; t++) {
      state = nextState(state, inputIds[t]);
      position++;
      const slot = Number(slotMapping[t]);
      const isKept = t + 1 === end || (this.#groups[g].mode === 'all' && position % blockSize === 0);
      if (slot >= 0 && isKept)
        this.#block(Math.floor(slot / blockSize))
          .fill(Number.NaN)
          .fill(state, 0, 1);
    }
  }

  #sample(tables: StepTables, entry: number): number {
    const length = tables.seqLens[entry];
    let sum = 0;
    for (const [g, group] of this.#groups.entries()) {
      const row = this.#row(tables, g, entry);
      const { blockSize } = group;
      if (group.type === 'mamba') {
        sum += this.#block(row[Math.floor((length - 1) / blockSize)])[0];
        continue;
      }
      const from = firstOf(group, length - 1);
      for (let i = Math.floor(from / blockSize); i * blockSize < length; i++) {
        const block = this.#block(row[i]);
        for (let p = i * blockSize; p < (i + 1) * blockSize; p++)
          sum += (p >= from && p < length ? weight(p) : 0) * block[p % blockSize];
      }
    }
    return sum % MODULUS;
  }

  /** Compares what plans say of blocks that requests let go with the rows of entries that run on. */
  #watch({ droppedBlocks, kinds, requests, numRequests }: ExecutorPlan, tables: StepTables): void {
    for (const id of droppedBlocks) this.dropped.add(id);
    for (let i = 0; i < numRequests; i++) {
      const { handle } = requests[i];
      const now = this.#groups.flatMap((_, g) => [...this.#row(tables, g, i)].filter((id) => id > 0));
      const before = kinds[i] === 0 ? (this.#rows.get(handle) ?? []) : [];
      for (const id of before) if (!now.includes(id)) this.left.add(id);
      this.#rows.set(handle, now);
    }
  }
}
