import { BlockstepError } from '../../../src/base/errors.js';
import type { PipelineOutput, PipelineResult } from '../../../src/pipeline/orchestrator/outputs.js';
import type { PipelineStream } from '../../../src/pipeline/orchestrator/pipeline-stream.js';
import type { Answers } from './text.js';
import type { World } from './world.js';

/** The request of a client, and the correct answers. */
export interface Wish {
  /** Its name in the journal: an id is used again. */
  readonly name: string;
  readonly id: string;
  readonly inputs: readonly Int32Array[];
  readonly isSession: boolean;
  readonly answers: readonly Answers[];
  /** Indices of the stages whose outputs it wants. */
  readonly wants: readonly number[];
  /** How it reads: at once, not before the gate opens, or not at all. */
  readonly reads: 'at once' | 'late' | 'never';
  /** After how many outputs it leaves its loop; Infinity: it does not. */
  readonly leavesAfter: number;
}

/** How something ended. */
type Fate =
  | { readonly kind: 'end'; readonly reason: string }
  | { readonly kind: 'error'; readonly error: unknown };

/** One client with one request: reads its stream, and compares all of it with the text by hand. */
export class Client {
  readonly wish: Wish;
  readonly stream: PipelineStream;
  /** Inputs of a session that were given. */
  given = 1;
  /** When the request is aborted: the reason, and whether its stream had ended. */
  abortedWith: { readonly reason: unknown; readonly hadEnded: boolean } | null = null;
  /** Its client died. */
  isDead = false;
  readonly #world: World;
  readonly #outputs: PipelineOutput[] = [];
  #open: () => void = () => {};
  #read: Fate | null = null;
  #ended: Fate | null = null;
  #result: PipelineResult | null = null;
  #numEnds = 0;
  #left = false;
  #wasAsked = false;
  /** Milliseconds at which it was seen to have ended; -1: it has not. */
  endedAt = -1;

  constructor(world: World, wish: Wish, stream: PipelineStream) {
    this.#world = world;
    this.wish = wish;
    this.stream = stream;
    stream.result().then(
      (result) => {
        this.#numEnds++;
        this.endedAt = world.now;
        this.#result = result;
        this.#ended = { kind: 'end', reason: result.finishReason };
      },
      (error: unknown) => {
        this.#numEnds++;
        this.endedAt = world.now;
        this.#ended = { kind: 'error', error };
      },
    );
    if (wish.reads !== 'never') void this.#reading();
  }

  /** Whether all that it waits for has come. */
  get isOver(): boolean {
    return this.#ended !== null && (this.wish.reads === 'never' || this.#read !== null);
  }

  get hasEnded(): boolean {
    return this.#ended !== null;
  }

  /** Lets a late reader begin. */
  open(): void {
    this.#open();
  }

  abort(reason: unknown, how: () => void): void {
    if (this.abortedWith === null) this.abortedWith = { reason, hadEnded: this.stream.ended };
    how();
    if (!this.stream.ended) this.#world.broke('abort', `${this.wish.name} goes on after its abort`);
  }

  /** Compares, once it is over. @param isQuiet nothing but an abort may have ended it early */
  check(isQuiet: boolean): void {
    const { name } = this.wish;
    if (this.#numEnds !== 1) this.#broke('once', `has ${this.#numEnds} ends`);
    const ended = this.#ended as Fate;
    const read = this.#read;
    this.#world.count(ended.kind === 'end' ? `end ${ended.reason}` : 'end error');
    if (read !== null && !this.#left && !isSame(ended, read))
      this.#broke('once', `ends as ${told(ended)}, and its reader was told ${told(read)}`);
    this.#checkPrefixes();
    const { abortedWith } = this;
    const wasAborted = abortedWith !== null && !abortedWith.hadEnded;
    if (ended.kind === 'end' && ended.reason !== 'abort') {
      if (wasAborted) this.#broke('abort', `was aborted, and ends as ${told(ended)}`);
      this.#checkWhole(this.#result as PipelineResult);
    } else if (wasAborted) {
      const isRight =
        abortedWith.reason === undefined
          ? ended.kind === 'end'
          : ended.kind === 'error' && ended.error === abortedWith.reason;
      if (!isRight) this.#broke('abort', `was aborted, and ends as ${told(ended)}`);
    } else if (ended.kind === 'end') this.#broke('abort', 'ends as aborted, and nobody has aborted it');
    else this.#checkFailure(ended.error, isQuiet);
    this.#world.note(`${name} ended: ${told(ended)}`);
  }

  /**
   * If the request failed because a stage waited too long, and this was not asked before: the
   * stage's message.
   */
  stallTold(): { name: string; waitedMs: number; stallMs: number; isForChunk: boolean } | null {
    if (this.#wasAsked || this.#ended?.kind !== 'error') return null;
    this.#wasAsked = true;
    const { error } = this.#ended;
    const told =
      /waits for (chunk \d+ of \S+|\S+ to take chunk \d+), (\d+) ms: stallMs of stage (\S+) is (\d+)/.exec(
        error instanceof Error ? error.message : '',
      );
    if (told === null) return null;
    const [, what, waited, name, stallMs] = told;
    return { name, waitedMs: Number(waited), stallMs: Number(stallMs), isForChunk: what.startsWith('chunk') };
  }

  #checkFailure(error: unknown, isQuiet: boolean): void {
    if (!(error instanceof BlockstepError))
      this.#broke('once', `failed with ${String(error)}, no BlockstepError`);
    else if (isQuiet) this.#broke('quiet', `failed in a world without faults: ${error.message}`);
    else {
      const kind =
        /stallMs|does not know|has not answered|outputs did not come|no longer|step fails|shut down/.exec(
          error.message,
        );
      this.#world.count(`failed: ${kind?.[0] ?? error.message.slice(0, 80)}`);
    }
  }

  /**
   * The received tokens are the beginning of the expected tokens, in every stage, and come from no
   * stage that was not asked for.
   */
  #checkPrefixes(): void {
    const { answers, wants } = this.wish;
    const { stages } = this.#world.setup;
    const came = stages.map((): number[] => []);
    for (const { stage, tokens, numOutputTokens } of this.#outputs) {
      const at = stages.findIndex(({ name }) => name === stage);
      came[at].push(...tokens);
      if (came[at].length !== numOutputTokens)
        this.#broke(
          'text',
          `${numOutputTokens} tokens of ${stage} are said to have come, ${came[at].length} have`,
        );
    }
    came.forEach((tokens, stage) => {
      if (tokens.length > 0 && !wants.includes(stage))
        this.#broke('text', `outputs of stage ${stage} were not asked for`);
      const right = answers[stage].flat();
      const wrong = tokens.findIndex((token, i) => token !== right[i]);
      if (wrong >= 0)
        this.#broke('text', `token ${wrong} of stage ${stage} is ${tokens[wrong]}, and not ${right[wrong]}`);
    });
  }

  /** The request has ended well: everything has come. */
  #checkWhole(result: PipelineResult): void {
    const { answers, wants, reads } = this.wish;
    const { stages } = this.#world.setup;
    stages.forEach(({ name }, stage) => {
      const text = answers[stage].flat();
      const end = result.stages[name];
      if (end === undefined) {
        this.#broke('text', `has no end in ${name}`);
        return;
      }
      if (end.numOutputTokens !== text.length)
        this.#broke('text', `${name} has made ${end.numOutputTokens} tokens, and not ${text.length}`);
      if ((end.tokens !== null) !== wants.includes(stage))
        this.#broke('text', `result has wrong tokens of ${name}`);
      if (end.tokens !== null && end.tokens.join() !== text.join())
        this.#broke('text', `result of ${name} is wrong`);
      const outputs = this.#outputs.filter((output) => output.stage === name);
      const numAnswers = outputs.filter(({ continues }) => continues).length;
      if (reads === 'never' || this.#left || !wants.includes(stage)) return;
      if (numAnswers !== answers[stage].length)
        this.#broke('text', `${numAnswers} answers of ${name} came, and not ${answers[stage].length}`);
      if (outputs.reduce((sum, { tokens }) => sum + tokens.length, 0) !== text.length)
        this.#broke('text', `not all outputs of ${name} came`);
    });
  }

  async #reading(): Promise<void> {
    if (this.wish.reads === 'late')
      await new Promise<void>((resolve) => {
        this.#open = resolve;
      });
    try {
      for await (const output of this.stream) {
        this.#outputs.push(output);
        if (this.#read !== null) {
          this.#broke('once', 'has outputs behind its last one');
          return;
        }
        if (output.finishReason !== null && !output.continues)
          this.#read = { kind: 'end', reason: output.finishReason };
        if (this.#outputs.length < this.wish.leavesAfter || this.#read !== null) continue;
        this.#left = true;
        if (this.abortedWith === null) this.abortedWith = { reason: undefined, hadEnded: this.stream.ended };
        break;
      }
      this.#read ??= { kind: 'end', reason: 'left' };
    } catch (error) {
      this.#read = { kind: 'error', error };
    }
  }

  #broke(invariant: string, message: string): void {
    this.#world.broke(invariant, `${this.wish.name} ${message}`);
  }
}

function isSame(a: Fate, b: Fate): boolean {
  if (a.kind === 'end') return b.kind === 'end' && a.reason === b.reason;
  return b.kind === 'error' && a.error === b.error;
}

function told(fate: Fate): string {
  return fate.kind === 'end' ? fate.reason : String(fate.error);
}
