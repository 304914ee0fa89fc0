// Decode, mixed and one request, each with its checks.
import { Random } from '../workloads/random.js';
import { BLOCK_SIZE, Prompts } from '../workloads/workloads.js';
import type { Peer } from './peer.js';
import type { PeerRequest, Stepped } from './protocol.js';

/** One workload over one peer. It checks what the peer answers, and throws an Error that says what is wrong. */
export interface PeerWorkload {
  /** Opens a scheduler, and prepares it for the measurement. */
  prepare(): Promise<void>;
  /** Takes one turn. */
  turn(): Promise<Turn>;
  /** After the last turn: checks all results. */
  finish(): Promise<void>;
}

/** The durations of one turn, in microseconds of one operation. */
export interface Turn {
  /** By the peer's own clock; null if it does not say. */
  readonly us: readonly number[] | null;
  /** On the pipe. */
  readonly wallUs: number;
}

export const WORKLOADS: Readonly<Record<string, (peer: Peer, turns: number) => PeerWorkload>> = {
  'decode-1': (peer, turns) => new DecodeTurns(peer, 1, turns),
  'decode-64': (peer, turns) => new DecodeTurns(peer, 64, turns),
  'decode-256': (peer, turns) => new DecodeTurns(peer, 256, turns),
  'mixed-256': (peer) => new MixedTurns(peer),
  'one-2048': (peer) => new OneRequest(peer),
};

const VOCABULARY = 100_000;
/** Steps of a turn of decodes, and of one of the mixed workload. */
const STEPS = 100;
const MIXED_STEPS = 25;
/** Turns before the first that counts: the peer's compiler, if it has one, is done. */
const WARM_UP = 15;
/** Steps that a peer may take until all prompts are computed, or all requests ended. */
const PATIENCE = 5000;

/** Checks that hold of every step. */
function checkStep(stepped: Stepped, maxRunning: number, maxTokens: number): void {
  const { requests, tokens, outputs } = stepped;
  for (let i = 0; i < requests.length; i++) {
    if (requests[i] > maxRunning)
      throw new Error(`a step has ${requests[i]} requests, at most ${maxRunning} may run`);
    if (tokens[i] > maxTokens)
      throw new Error(`a step computes ${tokens[i]} tokens, the budget is ${maxTokens}`);
    if (outputs[i] > requests[i])
      throw new Error(`a step samples ${outputs[i]} tokens for ${requests[i]} requests`);
  }
}

/** So many requests that decode, none of which ends. */
class DecodeTurns implements PeerWorkload {
  readonly #peer: Peer;
  readonly #size: number;
  readonly #steps: number;

  constructor(peer: Peer, size: number, turns: number) {
    this.#peer = peer;
    this.#size = size;
    this.#steps = (turns + WARM_UP) * STEPS;
  }

  async prepare(): Promise<void> {
    const size = this.#size;
    const longest = 512 + BLOCK_SIZE + this.#steps + PATIENCE;
    const blocksEach = Math.ceil(longest / BLOCK_SIZE) + 1;
    await this.#peer.ask({
      op: 'open',
      numBlocks: size * blocksEach + 1,
      blockSize: BLOCK_SIZE,
      maxRunning: size,
      maxTokensPerStep: 8192,
      maxRequestTokens: blocksEach * BLOCK_SIZE,
    });
    const prompts = new Prompts(512 + BLOCK_SIZE);
    const requests = Array.from({ length: size }, (_, id): PeerRequest => {
      return { id, prompt: [...prompts.next(512 + (id % BLOCK_SIZE))], maxTokens: this.#steps + PATIENCE };
    });
    await this.#peer.add(requests);
    let first = await this.#peer.step(1);
    for (let i = 0; first.outputs[0] < size; i++) {
      if (i === PATIENCE) throw new Error(`after ${i} steps ${first.outputs[0]} of ${size} requests decode`);
      checkStep(first, size, 8192);
      first = await this.#peer.step(1);
    }
    for (let i = 0; i < WARM_UP; i++) await this.turn();
  }

  async turn(): Promise<Turn> {
    const stepped = await this.#peer.step(STEPS);
    const { wallUs } = this.#peer;
    for (const name of ['requests', 'tokens', 'outputs'] as const) {
      const wrong = stepped[name].find((count) => count !== this.#size);
      if (wrong !== undefined) throw new Error(`a step of ${this.#size} decodes has ${wrong} ${name}`);
    }
    if (stepped.ended.length > 0) throw new Error(`request ${stepped.ended[0]} ended before its last token`);
    return { us: stepped.us ?? null, wallUs: wallUs / STEPS };
  }

  async finish(): Promise<void> {}
}

/** A full engine: 256 run, prompts of 512 to 2,048 tokens come as others end. */
class MixedTurns implements PeerWorkload {
  static readonly #RUNNING = 256;
  static readonly #BUDGET = 8192;
  /** Requests that there are, at least, before a turn: those that run, and enough to replace the ends of a turn. */
  static readonly #AHEAD = 256 + 96;
  readonly #peer: Peer;
  readonly #random = new Random(2);
  readonly #prompts = new Prompts(2048);
  /** The tokens that each request must have been given by its end. */
  readonly #open = new Map<number, PeerRequest>();
  #added = 0;
  #due = { tokens: 0, outputs: 0 };
  #seen = { tokens: 0, outputs: 0 };

  constructor(peer: Peer) {
    this.#peer = peer;
  }

  async prepare(): Promise<void> {
    await this.#peer.ask({
      op: 'open',
      numBlocks: 32_768,
      blockSize: BLOCK_SIZE,
      maxRunning: MixedTurns.#RUNNING,
      maxTokensPerStep: MixedTurns.#BUDGET,
      maxRequestTokens: 2048 + 256,
    });
    // All requests are new at first; after some hundred steps their ages are mixed.
    for (let i = 0; i < 4 * WARM_UP; i++) await this.#steps();
  }

  async turn(): Promise<Turn> {
    const { requests, us } = await this.#steps();
    const { wallUs } = this.#peer;
    const mean = requests.reduce((sum, count) => sum + count, 0) / requests.length;
    if (mean < 0.75 * MixedTurns.#RUNNING)
      throw new Error(
        `the mixed workload has ${Math.round(mean)} requests in a step, expected ${MixedTurns.#RUNNING}`,
      );
    return { us: us ?? null, wallUs: wallUs / MIXED_STEPS };
  }

  /** Lets everything end: each request must have had all of its tokens. */
  async finish(): Promise<void> {
    for (let left = PATIENCE; this.#open.size > 0; left -= MIXED_STEPS) {
      if (left < 0) throw new Error(`${this.#open.size} requests have not ended after ${PATIENCE} steps`);
      this.#count(await this.#peer.step(MIXED_STEPS));
    }
    const { tokens, outputs } = this.#seen;
    if (outputs !== this.#due.outputs)
      throw new Error(`${outputs} tokens were sampled, the requests wanted ${this.#due.outputs}`);
    if (tokens < this.#due.tokens)
      throw new Error(`${tokens} tokens were computed, the requests have ${this.#due.tokens}`);
  }

  async #steps(): Promise<Stepped> {
    const requests: PeerRequest[] = [];
    while (this.#open.size < MixedTurns.#AHEAD) {
      const request = {
        id: this.#added++,
        prompt: [...this.#prompts.next(512 + this.#random.below(1537))],
        maxTokens: 64 + this.#random.below(193),
      };
      this.#open.set(request.id, request);
      // The last sampled token is never computed.
      this.#due.tokens += request.prompt.length + request.maxTokens - 1;
      this.#due.outputs += request.maxTokens;
      requests.push(request);
    }
    if (requests.length > 0) await this.#peer.add(requests);
    return this.#count(await this.#peer.step(MIXED_STEPS));
  }

  #count(stepped: Stepped): Stepped {
    checkStep(stepped, MixedTurns.#RUNNING, MixedTurns.#BUDGET);
    for (const id of stepped.ended)
      if (!this.#open.delete(id))
        throw new Error(`request ${id} ended, which ${id < this.#added ? 'had ended' : 'never was'}`);
    for (const count of stepped.tokens) this.#seen.tokens += count;
    for (const count of stepped.outputs) this.#seen.outputs += count;
    return stepped;
  }
}

/** One request of 2,048 tokens alone, none of which is cached: adding it, and the step that computes it and ends it. */
class OneRequest implements PeerWorkload {
  static readonly #TOKENS = 2048;
  static readonly #SAMPLES = 20;
  readonly #peer: Peer;
  readonly #random = new Random(3);
  readonly #tokens = Array.from({ length: OneRequest.#TOKENS }, () => this.#random.below(VOCABULARY));
  #count = 0;

  constructor(peer: Peer) {
    this.#peer = peer;
  }

  async prepare(): Promise<void> {
    await this.#peer.ask({
      op: 'open',
      numBlocks: 10_000,
      blockSize: BLOCK_SIZE,
      maxRunning: 4,
      maxTokensPerStep: 2 * OneRequest.#TOKENS,
      maxRequestTokens: OneRequest.#TOKENS + BLOCK_SIZE,
    });
    for (let i = 0; i < WARM_UP; i++) await this.turn();
  }

  async turn(): Promise<Turn> {
    const us: number[] = [];
    let isTimed = true;
    let wallUs = 0;
    for (let i = 0; i < OneRequest.#SAMPLES; i++) {
      const id = this.#count++;
      this.#tokens[0] = id;
      const added = await this.#peer.add([{ id, prompt: this.#tokens, maxTokens: 1 }]);
      wallUs += this.#peer.wallUs;
      const stepped = await this.#peer.step(1);
      wallUs += this.#peer.wallUs;
      const [tokens, outputs, ended] = [stepped.tokens[0], stepped.outputs[0], stepped.ended];
      if (tokens !== OneRequest.#TOKENS || outputs !== 1 || ended.length !== 1 || ended[0] !== id)
        throw new Error(
          `the step of request ${id} computes ${tokens} tokens, samples ${outputs} and ends [${ended}], expected ${OneRequest.#TOKENS}, 1 and [${id}]`,
        );
      if (added.us && stepped.us) us.push(added.us[0] + stepped.us[0]);
      else isTimed = false;
    }
    return { us: isTimed ? us : null, wallUs: wallUs / OneRequest.#SAMPLES };
  }

  async finish(): Promise<void> {}
}
