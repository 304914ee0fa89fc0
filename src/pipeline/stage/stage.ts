import { Anomalies } from '../../base/anomalies.js';
import { BoundedSet } from '../../base/collections/bounded-set.js';
import { BlockstepError } from '../../base/errors.js';
import { Engine } from '../../engine/engine.js';
import type { EngineStats } from '../../engine/inspect/engine-stats.js';
import type { EngineOptions } from '../../engine/state/options.js';
import { ChunkTransferAdapter } from '../chunks/chunk-transfer-adapter.js';
import { EarlyChunks } from '../chunks/early-chunks.js';
import { AwakeClock } from '../time/awake-clock.js';
import type { Chunk } from '../transport/chunk.js';
import type { PipelineMessage, RequestKey, StageFigures, StageSubmission } from '../transport/messages.js';
import { type Connection, stageParty, type Transport } from '../transport/transport.js';
import { ArScheduler } from './ar-scheduler.js';
import { GenerationScheduler } from './generation-scheduler.js';
import { COMPUTES_AT_ONCE, type StageConfig } from './stage-options.js';
import { type StageParts, StageRequest } from './stage-request.js';

/** The surroundings of a stage. */
export interface StagePlace {
  readonly transport: Transport;
  /** The clock, in milliseconds. */
  readonly now: () => number;
  /** Milliseconds without a ping after which a client counts as gone, and its requests are aborted; 0: never. */
  readonly deadMs: number;
}

/** Figures of one stage. Plain data. */
export interface StageStats extends StageFigures {
  readonly name: string;
  /** Requests that were begun, ended by themselves, failed, and were aborted. */
  readonly begun: number;
  readonly ended: number;
  readonly anomalies: Record<string, number>;
  readonly engine: EngineStats;
}

/** Number of ended requests whose keys a stage remembers. */
const MOST_REMEMBERED = 4096;

/**
 * One stage of a pipeline: an engine, and the chunks of its requests. Messages give it its work,
 * and carry its results. Any message may be late, duplicated or about an ended request. Such
 * messages are counted and skipped.
 *
 * Invariants: `#requests` has exactly the requests whose work is not over, or whose chunks are not
 * all sent. A client in `#clients` has sent a message within `deadMs`, not counting sleep. No key
 * is in both `#over` and `#requests`.
 */
export class Stage {
  readonly engine: Engine;
  readonly #config: StageConfig;
  readonly #place: StagePlace;
  readonly #connection: Connection;
  readonly #adapter: ChunkTransferAdapter;
  readonly #parts: StageParts;
  readonly #anomalies = new Anomalies(false);
  readonly #requests = new Map<RequestKey, StageRequest>();
  /** The clock for measuring waits. */
  readonly #awake: AwakeClock;
  /** The time of each client's last message, in milliseconds of `#awake`. */
  readonly #clients = new Map<string, number>();
  /** Chunks that arrived before the submission of their request. */
  readonly #early: EarlyChunks;
  /** Keys of ended requests. A late or duplicate submission with such a key begins nothing. */
  readonly #over = new BoundedSet<RequestKey>(MOST_REMEMBERED);
  #numBegun = 0;
  #numForgotten = 0;

  /**
   * @throws the errors of the constructor of `Engine`; ERR_BLOCKSTEP_BAD_ARG if the transport has a
   * stage of this name
   */
  constructor(config: StageConfig, place: StagePlace) {
    const { now, transport } = place;
    this.#config = config;
    this.#place = place;
    const waits = [config.stallMs, place.deadMs].filter((ms) => ms > 0);
    this.#awake = new AwakeClock(now, Math.min(...waits));
    const atOnce = config.kind === 'generation' ? COMPUTES_AT_ONCE : {};
    // The adapter limits the waits for chunks, and writes their messages.
    const deadlines = { ...config.engine.deadlines, streamingInput: 0 };
    this.engine = makeEngine(config.name, { ...config.engine, ...atOnce, deadlines });
    this.#adapter = new ChunkTransferAdapter(config, this.#anomalies, () => this.#awake.now());
    this.#early = new EarlyChunks((key, chunk) => this.#adapter.receiveChunk(key, chunk));
    const Scheduler = config.kind === 'generation' ? GenerationScheduler : ArScheduler;
    try {
      this.#connection = transport.join(stageParty(config.name), {
        receive: (message) => this.#receive(message),
        lost: (from, why) => this.#lost(from, why),
      });
    } catch (error) {
      this.engine.dispose();
      throw error;
    }
    this.#parts = {
      config,
      scheduler: new Scheduler(this.engine),
      adapter: this.#adapter,
      now,
      send: (to, message) => this.#connection.send(to, message),
      forget: ({ submission }) => {
        if (!this.#requests.delete(submission.key)) return;
        this.#numForgotten++;
        this.#remember(submission.key);
      },
    };
  }

  get name(): string {
    return this.#config.name;
  }

  /**
   * Starts the engine's loop. A broken engine fails its present and later requests, each with its
   * reason.
   */
  run(): void {
    const drive = async () => this.engine.run();
    drive().catch(() => {});
  }

  /**
   * Ends requests that have waited too long, and requests of clients that have gone. Call it from
   * time to time.
   */
  tick(): void {
    for (const { key, why } of this.#adapter.stalled()) {
      const request = this.#requests.get(key);
      if (request === undefined) this.#adapter.cancel(key);
      else request.stall(why);
    }
    this.#early.expire(this.#place.now());
    const { deadMs } = this.#place;
    if (deadMs === 0) return;
    const now = this.#awake.now();
    for (const [client, heardAt] of this.#clients) if (now - heardAt >= deadMs) this.#giveUp(client);
  }

  /**
   * When `tick` has work to do, in milliseconds of the clock; Infinity: not before a message
   * arrives.
   */
  get nextDeadline(): number {
    let next = this.#adapter.nextDeadline;
    const { deadMs } = this.#place;
    if (deadMs > 0) for (const heardAt of this.#clients.values()) next = Math.min(next, heardAt + deadMs);
    const { nextLook } = this.#awake;
    // Waits count only while the process is awake.
    const awaited = next === Number.POSITIVE_INFINITY ? next : Math.min(this.#awake.toReal(next), nextLook);
    return Math.min(awaited, this.#early.nextDeadline);
  }

  /** Describes what a request waits for in this stage; null if the stage does not know it. */
  explain(key: RequestKey): string | null {
    return this.#requests.get(key)?.explain() ?? null;
  }

  /** Returns figures that are cheap to collect. */
  figures(): StageFigures {
    const { numParked, counts } = this.#adapter;
    return {
      ...{ requests: this.#requests.size, parked: numParked, chunksIn: counts.in, chunksOut: counts.out },
      troubles: this.engine.health().reasons,
    };
  }

  stats(): StageStats {
    return {
      ...{ name: this.name, ...this.figures() },
      ...{ begun: this.#numBegun, ended: this.#numForgotten },
      ...{ anomalies: this.#anomalies.toObject(), engine: this.engine.stats() },
    };
  }

  /** Checks the stage's invariants, and those of its engine. @throws ERR_BLOCKSTEP_INVARIANT */
  verify(): void {
    this.engine.verify();
    const { numOpen, numParked } = this.#adapter;
    const open = `${numOpen} requests have chunks, ${numParked} are parked, and ${this.#requests.size} are here`;
    if (numOpen > this.#requests.size || numParked > numOpen)
      throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', `stage ${this.name}: ${open}`);
  }

  /** Leaves the transport, and fails all requests. The engine continues until it is shut down. */
  async close(): Promise<void> {
    const why = new BlockstepError('ERR_BLOCKSTEP_SHUTDOWN', 'the stage was shut down');
    for (const request of [...this.#requests.values()]) request.fail(why);
    await this.#connection.close();
  }

  #receive(message: PipelineMessage): void {
    switch (message.kind) {
      case 'submit':
        this.#begin(message.submission);
        return;
      case 'chunk':
        this.#receiveChunk(message.key, message.chunk);
        return;
      case 'taken':
        this.#requests.get(message.key)?.taken(message.number);
        return;
      case 'abort':
        // The submission of an unknown request may arrive after its abort.
        this.#requests.get(message.key)?.abort();
        this.#remember(message.key);
        return;
      case 'ping':
        this.#answer(message.client, message.number);
        return;
      case 'explain': {
        const text = this.explain(message.key) ?? 'is not known here';
        this.#connection.send(message.client, { kind: 'explained', ask: message.ask, text });
        return;
      }
      default:
        this.#anomalies.report('foreign-message', `a stage was sent ${message.kind}`);
    }
  }

  #begin(submission: StageSubmission): void {
    const { key, id, client } = submission;
    if (this.#requests.has(key) || this.#over.has(key)) {
      const detail = `request ${id} was submitted by ${key}, which was submitted or aborted before`;
      this.#anomalies.report('duplicate-job', detail);
      return;
    }
    if (this.#place.deadMs > 0) this.#clients.set(client, this.#awake.now());
    this.#numBegun++;
    const request = new StageRequest(submission, this.#parts);
    this.#requests.set(key, request);
    request.begin();
    for (const chunk of this.#early.drain(key)) this.#adapter.receiveChunk(key, chunk);
  }

  #receiveChunk(key: RequestKey, chunk: Chunk): void {
    if (this.#requests.has(key) || this.#over.has(key)) this.#adapter.receiveChunk(key, chunk);
    else this.#early.keep(key, chunk, this.#place.now());
  }

  #answer(client: string, number: number): void {
    if (this.#place.deadMs > 0) this.#clients.set(client, this.#awake.now());
    const keys: RequestKey[] = [];
    for (const { submission } of this.#requests.values())
      if (submission.client === client) keys.push(submission.key);
    this.#connection.send(client, { kind: 'pong', stage: this.name, number, keys, figures: this.figures() });
  }

  #remember(key: RequestKey): void {
    this.#over.add(key);
    for (const chunk of this.#early.drain(key)) this.#adapter.receiveChunk(key, chunk);
  }

  #giveUp(client: string): void {
    this.#clients.delete(client);
    for (const request of [...this.#requests.values()])
      if (request.submission.client === client) request.abort();
  }

  #lost(from: string | null, why: string): void {
    const error = new BlockstepError('ERR_BLOCKSTEP_STAGE', why);
    for (const request of [...this.#requests.values()]) {
      const { client, from: before, to } = request.submission;
      if (from === null || from === client || from === before || from === to) request.fail(error);
    }
  }
}

function makeEngine(stage: string, options: EngineOptions): Engine {
  try {
    return new Engine(options);
  } catch (error) {
    if (!(error instanceof BlockstepError)) throw error;
    throw new BlockstepError(error.code, `engine of stage ${stage}: ${error.message}`, { cause: error });
  }
}
