// The manager: allocates in all groups or in none, publishes, releases.
import type { SubjectCore, SubjectInput, SubjectKvGroup, SubjectOptions } from '../../subject.js';
import { ReferenceRequest } from '../request.js';
import { Fence } from '../rules/fence.js';
import type { ReferenceRules } from '../rules/rules.js';
import { Contents } from './contents.js';
import { EventLog } from './event-log.js';
import type { Faults } from './faults.js';
import { type BlockCopy, type Demand, ReferenceGroup } from './group.js';
import { greatestCommonDivisor, type Hits, Lookup } from './lookup.js';
import { AlignedMamba, ReferenceMamba } from './mamba.js';
import { NULL_BLOCK, ReferencePool } from './pool.js';
import { emptyRow, type Row } from './row.js';

/** The tokens for which a request needs blocks, behind the computed ones. */
export interface Need {
  /** Computed in this step. */
  tokens: number;
  /** Cached blocks to start from. */
  hits?: Hits;
  /** Tokens that a connector brings. */
  external?: number;
  lookahead: number;
  /** Whether all known tokens of the request must fit, not only these. */
  reserve?: boolean;
  /**
   * Blocks that stay free beside the blocks of the request, and further blocks that stay free
   * beside the blocks that it takes now.
   */
  spare?: number;
  reserved?: number;
  /** False while a load is only begun. */
  publishes?: boolean;
}

const NO_HITS: Hits = { rows: [], tokens: 0 };

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}

/** vLLM's KVCacheManager: rows of blocks for requests, in groups that take their blocks from one pool. */
export class ReferenceBlocks {
  readonly pool: ReferencePool;
  readonly fence: Fence;
  readonly groups: readonly ReferenceGroup[];
  readonly #log: EventLog;
  readonly #lookup: Lookup;
  readonly #contents = new Contents();
  readonly #options: SubjectOptions;
  readonly #faults: Faults;
  readonly #rules: ReferenceRules;
  /** Tokens that a content name covers. */
  readonly #hashBlockSize: number;
  /** Blocks that sinks hold permanently. */
  readonly #sinks: readonly number[];
  /** Every request there ever was, by its slot. */
  readonly #requests: ReferenceRequest[] = [];
  /** Blocks that asynchronous loads of this step fill. */
  readonly #loaded = new Set<number>();

  constructor(options: SubjectOptions, faults: Faults, rules: ReferenceRules) {
    this.#options = options;
    this.#faults = faults;
    this.#rules = rules;
    this.#log = new EventLog(options.kvEvents);
    this.pool = new ReferencePool(options.numBlocks, this.#log, rules.freeOrder);
    this.fence = new Fence(this.pool);
    const specs: readonly SubjectKvGroup[] = options.kvGroups ?? [{ type: 'full' }];
    this.groups = specs.map((spec, i) => {
      const isAligned = spec.mode === 'align';
      const Group = isAligned ? AlignedMamba : spec.type === 'mamba' ? ReferenceMamba : ReferenceGroup;
      return new Group(i, spec, options, rules, this.pool);
    });
    this.#sinks = this.groups.flatMap(({ spec: { sinkTokens = 0 }, blockSize }) =>
      this.pool.take(sinkTokens / blockSize),
    );
    const divisor = this.groups.map(({ blockSize }) => blockSize).reduce(greatestCommonDivisor);
    this.#hashBlockSize = options.hashBlockSize ?? divisor;
    this.#lookup = new Lookup(this.groups, this.pool, options, this.#hashBlockSize, faults);
  }

  open(input: SubjectInput): ReferenceRequest {
    const request = new ReferenceRequest(input, this.#requests.length, this.groups.length);
    this.#requests.push(request);
    this.name(request);
    return request;
  }

  /** Names the blocks that a request has filled. As in vLLM a name stays when the tokens it stood for are dropped. */
  name(request: ReferenceRequest): void {
    const { cacheSalt = '', adapter = '' } = request.input;
    const owner = JSON.stringify([adapter, cacheSalt]);
    this.#contents.extend(request.names, request.tokens, this.#hashBlockSize, owner);
  }

  /** A step begins. */
  begin(): void {
    for (const group of this.groups) group.begin();
  }

  /** The cached blocks that a request may start from. */
  match(request: ReferenceRequest): Hits {
    return this.#options.enablePrefixCaching ? this.#lookup.match(request) : NO_HITS;
  }

  /**
   * Blocks for more tokens of a request, or false. With false nothing has changed, except that
   * blocks to which no token attends any more are given back.
   */
  allocate(request: ReferenceRequest, need: Need): boolean {
    const { tokens, hits = NO_HITS, external = 0, lookahead, publishes = true } = need;
    const { reserve = false, spare = 0, reserved = 0 } = need;
    const { maxModelLen } = this.#options;
    const local = request.numComputedTokens + hits.tokens;
    const total = Math.min(local + external, maxModelLen);
    const hitsOf = ({ index }: ReferenceGroup) => hits.rows[index] ?? [];
    const fits = (demand: Demand, beside: number) => {
      const needs = this.groups.map((group) => group.need(request.rows[group.index], hitsOf(group), demand));
      return sum(needs) + beside <= this.pool.free.length;
    };
    const all = Math.min(request.numTokens, maxModelLen);
    const whole = { slots: all, tokens: all, covered: total, local, isCapped: true };
    if (reserve && !fits(whole, spare)) return false;
    const after = total + tokens;
    const slots = Math.min(after + lookahead, maxModelLen);
    const demand = { slots, tokens: after, covered: local + external, local, isCapped: false };
    this.drop(request, total);
    if (!fits(demand, spare + reserved)) return false;
    const loads = external > 0 && request.rows.every(({ blocks }) => blocks.length === 0);
    const uncounted = this.groups.map((group) => (loads ? group.uncounted(hitsOf(group), demand) : 0));
    if (!fits(demand, sum(uncounted))) return false;
    if (external > 0 || hits.rows.some((row) => row.length > 0)) {
      const rowOf = (group: ReferenceGroup): Row => request.rows[group.index];
      const load = (group: ReferenceGroup) => group.load(rowOf(group), local + external, external);
      const opened = this.groups.filter((group) => {
        const isOpened = group.hold(rowOf(group), hitsOf(group), local, local + external);
        // A free hit of the next group may be among the blocks that are taken now: it then stands in two rows.
        if (isOpened && !this.#rules.holdsAllHits) load(group);
        return isOpened;
      });
      if (this.#rules.holdsAllHits) for (const group of opened) load(group);
    }
    for (const group of this.groups) group.extend(request.rows[group.index], demand);
    if (publishes) this.publish(request, Math.min(after, request.numTokens));
    return true;
  }

  /** Blocks that a request needs in addition to its own, until all of its tokens have a block. */
  missing(request: ReferenceRequest): number {
    const all = Math.min(request.numTokens, this.#options.maxModelLen);
    const covered = request.numComputedTokens;
    const whole = { slots: all, tokens: all, covered, local: covered, isCapped: true };
    const needs = this.groups.map((group) => group.need(request.rows[group.index], [], whole));
    return sum(needs);
  }

  /** Gives back what no token of a request attends to once `computed` are there, those in flight perhaps left out. */
  drop(request: ReferenceRequest, total: number): void {
    const inFlight = this.#rules.windowBasis === 'processed' ? request.numInFlight : 0;
    const computed = Math.max(0, total - inFlight);
    for (const group of this.groups) group.drop(request.rows[group.index], computed);
  }

  /** Publishes the full blocks of the first `tokens` tokens: as many as fill a block in every group. */
  publish(request: ReferenceRequest, tokens: number): void {
    if (!this.#options.enablePrefixCaching) return;
    const { alignment, isPartial } = this.#lookup;
    const aligned =
      this.groups.length > 1 && !isPartial ? Math.floor(tokens / alignment) * alignment : tokens;
    const matchesBehind = this.#rules.retention !== 'all' && aligned > 0;
    for (const group of this.groups) {
      const row = request.rows[group.index];
      // The block behind the hit is matched for the drafter, and dropped.
      const isBehind = matchesBehind && this.#lookup.isEagle(group);
      const whole = isBehind ? Math.min(tokens, aligned + group.blockSize) : aligned;
      const end = Math.floor(whole / group.blockSize);
      const begin = row.settled ?? 0;
      if (begin >= end) {
        this.#publishTail(request, group, whole);
        continue;
      }
      const nameOf = (place: number) =>
        request.names[((place + 1) * group.blockSize) / this.#hashBlockSize - 1];
      const places = Array.from({ length: end - begin }, (_, i) => begin + i).filter(
        (place) => row.blocks[place] !== NULL_BLOCK && this.#isKept(request, group, place),
      );
      for (const place of places) {
        const key = { name: nameOf(place), group: group.index };
        if (this.pool.keyOf(row.blocks[place])?.isTail) this.pool.unpublish([row.blocks[place]]);
        this.pool.publish(row.blocks[place], key);
        group.noted(key);
      }
      row.settled = end;
      this.#log.stored(request, group.facts, places, nameOf);
      this.#publishTail(request, group, whole);
    }
  }

  /** The block in which the last hash of the prompt ends, though it is not full (vLLM _cache_partial_tail_block of full attention). */
  #publishTail(request: ReferenceRequest, group: ReferenceGroup, whole: number): void {
    const size = this.#hashBlockSize;
    const hashes = Math.floor(request.numPromptTokens / size);
    const { isPartial } = this.#lookup;
    const place = Math.floor((hashes * size) / group.blockSize);
    const isInside = (hashes * size) % group.blockSize > 0;
    if (isPartial && isInside && group.spec.mode === 'align' && whole === hashes * size) {
      const key = { name: request.names[hashes - 1], group: group.index, isTail: true } as const;
      group.publishTail(request.rows[group.index], key, place);
    }
    if (!this.#rules.promptTails || !group.isFull || this.groups.length === 1) return;
    if (!isInside || hashes * size > whole) return;
    const block = request.rows[group.index].blocks[place];
    const key = { name: request.names[hashes - 1], group: group.index, isTail: true } as const;
    const held = block === undefined ? null : this.pool.keyOf(block);
    // Of a full block vLLM notes it beside the key that it has.
    if (block !== undefined && isPartial && held && !held.isTail) this.pool.alias(block, key);
    if (block === undefined || (held && (!held.isTail || held.name === key.name))) return;
    this.pool.unpublish([block]);
    this.pool.publish(block, key);
  }

  /** Whether a place is published: where a hit can use it, and the request's own end, or others, make it likely. */
  #isKept(request: ReferenceRequest, group: ReferenceGroup, place: number): boolean {
    const { retention } = this.#rules;
    const { alignment } = this.#lookup;
    const { type, window = 0 } = group.spec;
    if (retention === 'all') return !this.#isMasked(group, place);
    const isState = type === 'mamba';
    if ((type !== 'sliding' && !isState) || (isState && retention === 'reachable')) return true;
    const shift = !isState && this.#lookup.isEagle(group) ? 1 : 0;
    const tail = isState ? 1 : Math.ceil((window - 1) / group.blockSize) + shift;
    const span = (retention === 'reachable' ? alignment : retention) / group.blockSize;
    if (span > 0) {
      if (tail >= span) return true;
      if (place >= shift && (place - shift) % span >= span - tail) return true;
    }
    if (retention === 'reachable') return false;
    const ends = [
      Math.max(request.numPromptTokens - 1, 0),
      ...(request.junction > 0 ? [request.junction] : []),
    ];
    return ends.some((tokens) => {
      const end = (Math.floor(tokens / alignment) * alignment) / group.blockSize + shift;
      return place >= end - tail && place < end;
    });
  }

  /** Whether no hit can use a place: hits end on a multiple of all block sizes, and a window reaches only so far back. */
  #isMasked(group: ReferenceGroup, place: number): boolean {
    const { type, window = 0 } = group.spec;
    const perHit = this.#lookup.alignment / group.blockSize;
    const tail = Math.ceil((window - 1) / group.blockSize);
    if (type !== 'sliding' || perHit === 1 || tail >= perHit) return false;
    const isInTail = place % perHit >= perHit - tail;
    // The block behind the hit is matched for the drafter, and dropped.
    const isBehind = !this.#faults.G3 && this.#lookup.isEagle(group) && place % perHit === 0;
    return !isInTail && !isBehind;
  }

  /** Gives all blocks of a request back. @param isWritten a batch in flight may write them: they come back behind it */
  release(request: ReferenceRequest, isWritten = false): void {
    if (isWritten) this.fence.hold(request.rows.flatMap(({ blocks }) => blocks));
    for (const group of this.groups) {
      const row = request.rows[group.index];
      if (isWritten) Object.assign(row, emptyRow());
      else group.release(row);
    }
  }

  /** Leading blocks of a request that all requests with blocks share, by group. */
  commonPrefixes(request: ReferenceRequest | undefined): number[] {
    return this.groups.map(({ index, isFull }) => {
      if (!request || !isFull || !this.#options.enablePrefixCaching) return 0;
      const rows = this.#requests.map((other) => other.rows[index].blocks);
      const holders = rows.filter((blocks) => blocks.length > 0).length;
      const { blocks } = request.rows[index];
      const end = blocks.findIndex((block) => this.pool.refs[block] !== holders);
      return end === -1 ? blocks.length : end;
    });
  }

  /** Notes what an asynchronous load of this step fills: places of these tokens. */
  noteLoaded(request: ReferenceRequest, from: number, until: number): void {
    if (!this.#rules.zeroesUnloaded) return;
    for (const { index, blockSize } of this.groups) {
      const places = [Math.floor(from / blockSize), Math.ceil(until / blockSize)] as const;
      for (const block of request.rows[index].blocks.slice(...places)) this.#loaded.add(block);
    }
  }

  /** Blocks that were taken since the last time and must be zeroed: where there are states, those of full attention too. */
  drainBlocksToZero(): Int32Array | null | undefined {
    if (this.groups.every(({ spec }) => spec.type !== 'mamba')) return undefined;
    const fresh = this.groups.flatMap((group) => group.fresh.splice(0));
    const blocks = fresh.filter((block) => !this.#loaded.has(block));
    this.#loaded.clear();
    return blocks.length > 0 ? Int32Array.from(blocks) : null;
  }

  /** The copies to make before the step computes. Both blocks of a copy are held until now. */
  drainCopies(): BlockCopy[] {
    const copies = this.groups.flatMap((group) => group.copies.splice(0));
    this.pool.release(copies.flatMap(({ from, to }) => [from, to]).reverse());
    return copies;
  }

  /** Reports the changes of the prefix cache. */
  tell(): void {
    this.#log.tell();
  }

  /** Tokens of a chunk whose end is a state that is kept. Undefined: any chunk will do. */
  get chunkAlignment(): number | undefined {
    return this.groups.some(({ spec }) => spec.mode === 'align') ? this.#options.blockSize : undefined;
  }

  /** With the fault `partialHits`: where a chunk ends so that the prompt's last hash is found, if it is inside a block. */
  tailOf({ numPromptTokens }: ReferenceRequest): number[] {
    const tail = numPromptTokens - (numPromptTokens % this.#hashBlockSize);
    return this.#lookup.isPartial && tail < numPromptTokens ? [tail] : [];
  }

  get core(): SubjectCore {
    const { pool } = this;
    return {
      freeBlocks: pool.free.length,
      publishedBlocks: pool.published().length,
      usage: 1 - pool.free.length / (pool.numBlocks - 1),
      freeQueue: () => Int32Array.from(pool.free),
      published: () => Int32Array.from(pool.published()),
      publishedGroup: (block) => pool.keyOf(block)?.group ?? 0,
      native: {
        readBlocks: (slot, from, out, group = 0) => {
          const blocks = this.#requests[slot].rows[group].blocks.slice(from, from + out.length);
          out.set(blocks);
          return blocks.length;
        },
      },
    };
  }

  /** Every reference comes from a request or a sink, and a block is free exactly if it has none. */
  verify(): void {
    const { refs, free, numBlocks } = this.pool;
    const rows = this.#requests.flatMap((request) => request.rows.map((row) => row.blocks));
    const counted = new Array<number>(numBlocks).fill(0);
    for (const blocks of [...rows, this.#sinks, this.fence.blocks])
      for (const block of blocks) counted[block]++;
    for (let block = 1; block < numBlocks; block++) {
      if (counted[block] !== refs[block])
        throw new Error(`block ${block} is referenced ${counted[block]} times`);
      if (free.includes(block) !== (refs[block] === 0)) throw new Error(`block ${block} is free and in use`);
    }
  }
}
