// The rules of KV cache groups, as the auditor knows them.

/**
 * A KV cache group as the auditor knows it: the earlier tokens that a token of its layers needs.
 */
export interface GroupRule {
  readonly type: 'full' | 'sink' | 'sliding' | 'chunked' | 'mamba';
  /** Tokens of a block. */
  readonly size: number;
  /** Of `sliding`: tokens that a token sees, itself included. */
  readonly window: number;
  readonly chunk: number;
  readonly mode: 'none' | 'align' | 'all' | null;
  /** Of `sink`: blocks that nobody gets. */
  readonly sinks: number;
  /** Of `mamba`: blocks for states of drafts, at the end of a row. */
  readonly spare: number;
}

/** The limits on which groups depend. */
export interface GroupLimits {
  readonly groups: readonly GroupRule[];
  readonly numBlocks: number;
  readonly maxModelLen: number;
  readonly maxNumBatchedTokens: number;
  /** Tokens beside those of a step and its window for which a group with a window keeps places: drafts, planned and in flight. */
  readonly drafts: number;
  /** Steps whose tokens let nothing go yet: one, or as many as there may be in flight. */
  readonly stepsKept: number;
}

/** Whether its layers keep the KV of tokens; otherwise they keep one state. */
export function keepsTokens({ type }: GroupRule): boolean {
  return type !== 'mamba';
}

/** The first token that a token behind `computed` ones needs; of a state: the last computed one, since its state is what counts. */
export function firstNeeded({ type, window, chunk }: GroupRule, computed: number): number {
  if (type === 'sliding') return Math.max(0, computed - window + 1);
  if (type === 'chunked') return computed - (computed % chunk);
  return type === 'mamba' ? Math.max(0, computed - 1) : 0;
}

/** The places of a row that a request needs which goes on behind so many tokens. */
export function neededPlaces(group: GroupRule, tokens: number): { first: number; end: number } {
  const end = Math.ceil(tokens / group.size);
  return { first: Math.min(end, Math.floor(firstNeeded(group, tokens) / group.size)), end };
}

/** Blocks that sinks take out of the pool. */
export function numSinks({ groups }: Pick<GroupLimits, 'groups'>): number {
  return groups.reduce((sum, { sinks }) => sum + sinks, 0);
}

/** Blocks that requests can get: not the null block, and not those of sinks. */
export function numUsable(limits: Pick<GroupLimits, 'groups' | 'numBlocks'>): number {
  return limits.numBlocks - 1 - numSinks(limits);
}

/**
 * The maximum number of blocks with content in a row of the group, for any request and any length.
 */
export function mostLive(
  group: GroupRule,
  { maxModelLen, maxNumBatchedTokens, drafts, stepsKept }: GroupLimits,
): number {
  const { type, size, window, chunk, mode, spare } = group;
  const all = Math.ceil(maxModelLen / size) + spare;
  const kept = stepsKept * maxNumBatchedTokens;
  if (type === 'sliding') return Math.ceil(Math.min(window - 1 + kept + drafts, maxModelLen) / size) + 1;
  // A chunk that begins within a block takes one more.
  if (type === 'chunked')
    return Math.ceil(Math.min(chunk + kept + drafts, maxModelLen) / size) + (chunk % size > 0 ? 1 : 0);
  if (mode === 'align') return 1 + stepsKept + spare;
  if (mode === null) return all;
  // A step may begin and end within blocks, and goes on from the state in front of it. With drafts,
  // it goes on from any state that may be rejected.
  const behind = Math.max(size, drafts + spare);
  return Math.min(all, 1 + Math.ceil((kept + behind) / size) + spare);
}

/** Tokens that the pool can hold for one request. */
export function mostTokens(limits: GroupLimits): number {
  const { groups, maxModelLen } = limits;
  const free = numUsable(limits);
  // A pool of one kind of blocks may hold more than a request may have.
  if (groups.length === 1 && groups[0].type === 'full') return free * groups[0].size;
  for (let tokens = maxModelLen; tokens > 0; tokens--) {
    const blocks = groups.map((group) =>
      Math.min(Math.ceil(tokens / group.size) + group.spare, mostLive(group, limits)),
    );
    if (blocks.reduce((sum, count) => sum + count, 0) <= free) return tokens;
  }
  return 0;
}
