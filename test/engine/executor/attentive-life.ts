import { BlockstepError, Engine, type EngineOptions, type RequestStream } from '../../../src/index.js';
import { Random, settled } from '../../support/engine-bench.js';
import { FakeGrammar } from '../../support/fake-grammar.js';
import { type AttentiveExecutor, continuation } from './attentive-executor.js';

/** One request of a life, and its expected output. */
interface Told {
  stream: RequestStream;
  /** Of a session: the prompts and limits of its chunks, in order. */
  chunks: { prompt: number[]; maxTokens: number }[];
  isOpen: boolean;
  end: Promise<{ tokens: number[]; reason: string }>;
}

export interface LifeOptions {
  /** Of a thousand events: so many reset the prefix cache. */
  resets?: number;
  sessions?: boolean;
  grammars?: boolean;
}

/** A seeded life of an engine over an attentive executor. Every text that is complete must be that of the model. */
export class AttentiveLife {
  readonly engine: Engine;
  readonly random: Random;
  readonly told: Told[] = [];
  readonly #executor: AttentiveExecutor;
  readonly #options: LifeOptions;
  #time = 0;

  constructor(
    seed: number,
    make: (shape: { numBlocks: number; blockSize: number }, random: Random) => AttentiveExecutor,
    options: Partial<EngineOptions> & LifeOptions = {},
  ) {
    const random = new Random(seed);
    const { resets, sessions, grammars, ...engineOptions } = options;
    this.random = random;
    this.#options = { resets: resets ?? 5, sessions: sessions ?? true, grammars: grammars ?? true };
    const shape = { numBlocks: 14 + random.below(16), blockSize: [2, 4][random.below(2)] };
    this.#executor = make(shape, random);
    this.#executor.atOnce = () => random.chance(20);
    this.engine = new Engine({
      ...shape,
      pipelineDepth: (1 + (seed % 3)) as 1 | 2 | 3,
      maxNumSeqs: 2 + random.below(5),
      maxNumBatchedTokens: 6 + random.below(30),
      maxModelLen: 48,
      policy: random.chance(50) ? 'priority' : 'fcfs',
      reserveFullIsl: random.chance(50),
      loadFailurePolicy: 'recompute',
      hashSeed: 7,
      now: () => this.#time,
      executor: this.#executor,
      ...engineOptions,
    });
  }

  async run(events: number): Promise<void> {
    for (let i = 0; i < events; i++) {
      this.#event();
      if (this.random.chance(60)) await settled();
      this.engine.verify();
    }
    for (const one of this.told) this.#close(one);
    for (let i = 0; i < 3000 && this.engine.step().state !== 'idle'; i++) {
      this.#executor.pending.shift()?.();
      await settled();
      this.#time++;
    }
  }

  /** The faults in the texts of requests that have ended. */
  async wrongTexts(): Promise<string[]> {
    const wrong: string[] = [];
    for (const { stream, chunks, end } of this.told) {
      const { tokens, reason } = await end;
      if (reason === 'never') wrong.push(`${stream.id} never ended`);
      const expected = expectedOf(chunks).slice(0, tokens.length);
      if (tokens.join() !== expected.join())
        wrong.push(`${stream.id} (${reason}): ${tokens} not ${expected}`);
      if (reason === 'length' && tokens.length < expectedOf(chunks).length)
        wrong.push(`${stream.id}: too short`);
    }
    return wrong;
  }

  #event(): void {
    const { random, engine } = this;
    const dice = random.below(1000);
    this.#time += random.below(3);
    if (dice < 180) this.#submit();
    else if (dice < 560) engine.step();
    else if (dice < 800) this.#deliver();
    else if (dice < 860) this.#abort();
    else if (dice < 940) this.#chunk();
    else if (dice < 940 + (this.#options.resets as number))
      engine.resetPrefixCache({ resetRunning: random.chance(50) });
    else engine.stats();
  }

  #deliver(): void {
    const { pending } = this.#executor;
    if (pending.length > 0)
      pending.splice(this.random.chance(70) ? 0 : this.random.below(pending.length), 1)[0]();
  }

  /** Prompts of one family begin alike; some go on in their own way. */
  #text(most: number): number[] {
    const { random } = this;
    const family = random.below(3);
    const length = 1 + random.below(most);
    const own = random.chance(30) ? random.below(length + 1) : length;
    return Array.from({ length }, (_, i) => 100 + family * 50 + i + (i >= own ? 1000 * this.told.length : 0));
  }

  #submit(): void {
    const { random, engine } = this;
    const { numBlocks, blockSize } = engine.scheduler.config;
    const prompt = this.#text(Math.min(24, (numBlocks - 1) * blockSize - 11));
    const maxTokens = 1 + random.below(10);
    const resumable = this.#options.sessions === true && random.chance(25);
    const grammar =
      this.#options.grammars === true && random.chance(15) ? { grammar: new FakeGrammar() } : {};
    const timeout = random.chance(10) ? { timeoutMs: 1 + random.below(20) } : {};
    const stream = engine.submit({
      prompt: Int32Array.from(prompt),
      maxTokens,
      priority: random.below(3),
      resumable,
      params: { number: this.told.length },
      ...grammar,
      ...timeout,
    });
    this.told.push({ stream, chunks: [{ prompt, maxTokens }], isOpen: resumable, end: endOf(stream) });
  }

  #chunk(): void {
    const open = this.told.filter(({ isOpen, stream }) => isOpen && !stream.ended);
    if (open.length === 0) return;
    const one = open[this.random.below(open.length)];
    if (one.chunks.length > 2 || this.random.chance(30)) {
      this.#close(one);
      return;
    }
    const { numBlocks, blockSize } = this.engine.scheduler.config;
    const room = Math.min(48, (numBlocks - 1) * blockSize);
    const used = one.chunks.reduce((sum, { prompt, maxTokens }) => sum + prompt.length + maxTokens, 0);
    const maxTokens = 1 + this.random.below(4);
    const prompt = this.#text(6);
    if (used + prompt.length + maxTokens >= room) return;
    one.stream.addChunk({ prompt: Int32Array.from(prompt), maxTokens });
    one.chunks.push({ prompt, maxTokens });
  }

  #close(one: Told): void {
    if (!one.isOpen || one.stream.ended) return;
    one.isOpen = false;
    one.stream.endInput();
  }

  #abort(): void {
    const open = this.told.filter(({ stream }) => !stream.ended);
    if (open.length === 0) return;
    const { stream } = open[this.random.below(open.length)];
    if (this.random.chance(70)) stream.abort();
    else this.engine.abort(stream.id);
  }
}

/**
 * The answers to all chunks, one behind the other. The last token of an answer is not part of the
 * text that the next chunk continues.
 */
function expectedOf(chunks: Told['chunks']): number[] {
  const text: number[] = [];
  const said: number[] = [];
  for (const { prompt, maxTokens } of chunks) {
    text.push(...prompt);
    const answer = continuation(text, maxTokens);
    said.push(...answer);
    text.push(...answer.slice(0, -1));
  }
  return said;
}

async function endOf(stream: RequestStream): Promise<{ tokens: number[]; reason: string }> {
  const tokens: number[] = [];
  try {
    for await (const output of stream) tokens.push(...output.tokens);
    return { tokens, reason: (await stream.result()).finishReason };
  } catch (error) {
    return { tokens, reason: error instanceof BlockstepError ? error.code : String(error) };
  }
}
