import type { Plan } from '../../src/scheduler/plan/plan.js';
import type { Request, RequestInput } from '../../src/scheduler/request/request.js';
import type { Scheduler } from '../../src/scheduler/scheduler.js';

/** The token of a request at a position at or behind the end of its prompt. */
export type TokenAt = (input: RequestInput, position: number, root: number) => number;

/** The work of the model for one plan. Arrays are in plan order. */
export interface Executed {
  plan: Plan;
  tokens: Int32Array;
  counts: Int32Array;
  /** 1: the row failed and wrote nothing. */
  errors: Uint8Array;
  /** Rows that read KV which nobody had written for them: their sampled tokens are wrong. */
  tainted: string[];
  requests: Request[];
  /** Which answer of its session each row belongs to. */
  answers: number[];
}

/** The model's state of one incarnation, as in a worker. */
interface Sequence {
  input: RequestInput;
  root: number;
  /** Fingerprint of the tokens up to each position, this one included. */
  prints: number[];
  /** Tokens that the model knows. */
  length: number;
  /** Tokens whose KV it wrote. */
  computed: number;
  /** A row of it failed, so its text means nothing until it is admitted again. */
  lost: boolean;
  /** Answers that ended while the session went on. */
  answers: number;
}

const GARBAGE = -1;

/**
 * A deterministic model over a real KV cache. It writes a fingerprint of the text into every
 * position that a plan computes, and reads back every position that the plan calls computed. A
 * prefix hit may be on a block that was never written, or was written for another text. It then
 * shows as wrong data, not only as wrong bookkeeping.
 *
 * Plans are executed at once and in order, whenever their results are delivered.
 */
export class FakeModel {
  readonly #scheduler: Scheduler;
  readonly #tokenAt: TokenAt;
  readonly #kv: Int32Array;
  readonly #sequences = new Map<number, Sequence>();

  constructor(scheduler: Scheduler, tokenAt: TokenAt = defaultToken) {
    this.#scheduler = scheduler;
    this.#tokenAt = tokenAt;
    this.#kv = new Int32Array(scheduler.config.numBlocks * scheduler.config.blockSize).fill(GARBAGE);
  }

  know(handle: number, input: RequestInput): void {
    const root = rootOf(input);
    const length = input.prompt.length;
    this.#sequences.set(handle, { input, root, prints: [], length, computed: 0, lost: false, answers: 0 });
  }

  /** A session goes on: its prompt is now `kept` of all its tokens, and the chunk. */
  continue(handle: number, kept: readonly number[], chunk: Int32Array): void {
    const sequence = this.#sequence(handle);
    sequence.input = { ...sequence.input, prompt: Int32Array.from([...kept, ...chunk]) };
    sequence.root = rootOf(sequence.input);
    sequence.prints.length = Math.min(sequence.prints.length, kept.length);
    sequence.length = sequence.input.prompt.length;
    sequence.answers++;
  }

  /** The prompt of a request, or of a session's present answer. */
  prompt(handle: number): Int32Array {
    return Int32Array.from(this.#sequence(handle).input.prompt);
  }

  /** The text that a request must get when nothing stops it early. */
  text(handle: number, count: number): number[] {
    const sequence = this.#sequence(handle);
    const from = sequence.input.prompt.length;
    return Array.from({ length: count }, (_, i) => this.#token(sequence, from + i));
  }

  /** Tokens whose KV the model wrote for a request since it was last admitted. */
  numWritten(handle: number): number {
    return this.#sequence(handle).computed;
  }

  /** A connector writes the KV of these positions of a request into its blocks. */
  load(handle: number, blocks: Int32Array, from: number, to: number): void {
    const { blockSize } = this.#scheduler.config;
    const sequence = this.#sequence(handle);
    for (let p = from; p < to; p++) {
      this.#kv[blocks[Math.floor(p / blockSize)] * blockSize + (p % blockSize)] = this.#print(sequence, p);
    }
  }

  /** The KV of a block is gone. */
  lose(block: number): void {
    const { blockSize } = this.#scheduler.config;
    this.#kv.fill(GARBAGE, block * blockSize, (block + 1) * blockSize);
  }

  /** Runs a plan just scheduled; rows for which `fails` is true write nothing and answer nothing. */
  execute(plan: Plan, fails: (entry: number) => boolean = () => false): Executed {
    const counts = new Int32Array(plan.numRequests);
    const errors = new Uint8Array(plan.numRequests);
    const tokens: number[] = [];
    const tainted: string[] = [];
    for (let i = 0; i < plan.numRequests; i++) {
      const sampled = this.#row(plan, i, fails(i), errors, tainted);
      counts[i] = sampled.length;
      tokens.push(...sampled);
    }
    const requests = plan.requests.slice(0, plan.numRequests);
    const answers = requests.map(({ handle }) => this.#sequence(handle).answers);
    return { plan, tokens: Int32Array.from(tokens), counts, errors, tainted, requests, answers };
  }

  /** Takes back what rows of the plan executed last accepted of drafts that were refused before it was sampled. */
  refuse(executed: Executed): void {
    const { plan, requests, answers } = executed;
    const tokens: number[] = [];
    let from = 0;
    requests.forEach(({ handle }, i) => {
      const count = executed.counts[i];
      const most = 1 + plan.numDraftTokens[i] - plan.numInvalidDraftTokens[i];
      const sequence = this.#sequence(handle);
      tokens.push(...executed.tokens.subarray(from, from + Math.min(count, most)));
      from += count;
      if (count <= most) return;
      executed.counts[i] = most;
      if (sequence.answers !== answers[i]) return;
      sequence.length -= count - most;
      sequence.computed -= count - most;
    });
    executed.tokens = Int32Array.from(tokens);
  }

  /** Drafts for a plan in flight, made by the step before it: any tokens will do. */
  draftsFor(plan: Plan, count: number): { tokens: Int32Array; counts: Int32Array } {
    const counts = new Int32Array(plan.numRequests).fill(count);
    const tokens = Int32Array.from({ length: plan.numRequests * count }, (_, i) => mix(plan.step, i) % 1000);
    return { tokens, counts };
  }

  /** Drafts for the plan that was just updated: some right, some wrong, as many as `count` says. */
  drafts(executed: Executed, count: number): { tokens: Int32Array; counts: Int32Array } {
    const counts = new Int32Array(executed.requests.length);
    const tokens: number[] = [];
    executed.requests.forEach((request, i) => {
      if (request.isFinished || executed.counts[i] === 0) return;
      const sequence = this.#sequence(request.handle);
      counts[i] = count;
      for (let j = 0; j < count; j++) {
        const right = this.#token(sequence, sequence.length + j);
        tokens.push(mix(sequence.root, sequence.length * 7 + j) % 3 === 0 ? right + 1 : right);
      }
    });
    return { tokens: Int32Array.from(tokens), counts };
  }

  #row(plan: Plan, i: number, failed: boolean, errors: Uint8Array, tainted: string[]): number[] {
    const request = plan.requests[i];
    const sequence = this.#sequence(request.handle);
    const numDrafts = plan.numDraftTokens[i];
    const samples = plan.maxOutputTokens[i] > 0;
    // A running request goes back to where its load failed.
    if (plan.kinds[i] !== 0 || plan.numComputedTokens[i] < sequence.computed) {
      sequence.computed = plan.numComputedTokens[i];
      // Without outputs in flight, the scheduler's tokens are all there are; dropped tokens are
      // computed again.
      const expected = request.numOutputPlaceholders - (samples ? 1 + numDrafts : 0);
      if (expected <= 0) {
        sequence.length = request.numTokens;
        sequence.lost = false;
      }
    }
    if (failed || sequence.lost) {
      sequence.lost = true;
      errors[i] = failed ? 1 : 0;
      return [];
    }
    const blocks = this.#scheduler.core.blocks(request.slot);
    const bad = !this.#reads(sequence, blocks);
    if (bad) tainted.push(request.id);
    const end = sequence.computed + plan.numScheduledTokens[i] - numDrafts;
    if (!samples) {
      this.#writes(sequence, blocks, end, bad);
      sequence.computed = end;
      return [];
    }
    if (this.#exact) expectEqual(request, 'the position to sample', end, sequence.length);
    const accepted = this.#accepted(plan, i, sequence, numDrafts);
    this.#writes(sequence, blocks, sequence.length + accepted, bad);
    const sampled: number[] = [];
    for (let j = 0; j <= accepted; j++) sampled.push(this.#token(sequence, sequence.length + j));
    sequence.length += accepted + 1;
    sequence.computed = sequence.length - 1;
    return sampled;
  }

  /** With drafts in flight the scheduler counts them as computed before it knows; else its counts are exact. */
  get #exact(): boolean {
    const { pipelineDepth, numSpeculativeTokens } = this.#scheduler.config;
    return pipelineDepth === 1 || numSpeculativeTokens === 0;
  }

  #accepted(plan: Plan, i: number, sequence: Sequence, numDrafts: number): number {
    if (numDrafts === 0) return 0;
    if (this.#scheduler.config.pipelineDepth > 1)
      return mix(sequence.root, sequence.length) % (numDrafts + 1);
    let accepted = 0;
    const from = i * plan.maxDrafts;
    while (accepted < numDrafts) {
      if (plan.draftTokens[from + accepted] !== this.#token(sequence, sequence.length + accepted)) break;
      accepted++;
    }
    return accepted;
  }

  #reads(sequence: Sequence, blocks: Int32Array): boolean {
    const { blockSize } = this.#scheduler.config;
    for (let p = 0; p < sequence.computed; p++) {
      const at = blocks[Math.floor(p / blockSize)] * blockSize + (p % blockSize);
      if (this.#kv[at] !== this.#print(sequence, p)) return false;
    }
    return true;
  }

  #writes(sequence: Sequence, blocks: Int32Array, end: number, bad: boolean): void {
    const { blockSize } = this.#scheduler.config;
    for (let p = sequence.computed; p < end; p++) {
      const block = Math.floor(p / blockSize);
      if (block >= blocks.length) throw new Error(`${sequence.input.id} holds no block for position ${p}`);
      this.#kv[blocks[block] * blockSize + (p % blockSize)] = bad ? GARBAGE : this.#print(sequence, p);
    }
  }

  #token(sequence: Sequence, position: number): number {
    const { prompt } = sequence.input;
    if (position < prompt.length) return prompt[position];
    return this.#tokenAt(sequence.input, position, sequence.root);
  }

  #print(sequence: Sequence, position: number): number {
    const { prints, input } = sequence;
    for (let p = prints.length; p <= position; p++) {
      const salt = mix(textPrint(input.adapter ?? ''), textPrint(input.cacheSalt ?? ''));
      prints.push(mix(p === 0 ? salt : prints[p - 1], this.#token(sequence, p)));
    }
    return prints[position];
  }

  #sequence(handle: number): Sequence {
    const sequence = this.#sequences.get(handle);
    if (sequence === undefined) throw new Error(`the model never heard of handle ${handle}`);
    return sequence;
  }
}

/** A hash of two numbers, 0 to 2^31 - 1. */
export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15), 0x27d4eb2f);
  return (h ^ (h >>> 13)) & 0x7fffffff;
}

function rootOf({ adapter = '', cacheSalt = '', prompt }: RequestInput): number {
  let root = mix(textPrint(adapter), textPrint(cacheSalt));
  for (const token of Array.from(prompt)) root = mix(root, token);
  return root;
}

function textPrint(text: string): number {
  let h = 1;
  for (let i = 0; i < text.length; i++) h = mix(h, text.charCodeAt(i));
  return h;
}

/** Depends on the prompt, salt and adapter alone, so that requests with equal prompts share their output's blocks too. */
function defaultToken(_input: RequestInput, position: number, root: number): number {
  return 1000 + (mix(root, position) % 100_000);
}

function expectEqual(request: Request, what: string, found: number, expected: number): void {
  if (found !== expected) throw new Error(`${request.id}: ${what} is ${found}, the model is at ${expected}`);
}
