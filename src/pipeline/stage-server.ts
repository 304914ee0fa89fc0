import { badArg, isObject } from '../base/checks.js';
import { checkInteger } from '../base/errors.js';
import { checkNames, knownNames } from '../base/known-names.js';
import { Stage, type StageStats } from './stage/stage.js';
import { parseStageOptions, type StageOptions } from './stage/stage-options.js';
import { Ticker } from './time/ticker.js';
import { checkTransport, type Transport } from './transport/transport.js';

/** Options of a `StageServer`. */
export interface StageServerOptions {
  /** The stage. */
  stage: StageOptions;
  /** The transport through which the stage is reached. The server does not close it. */
  transport: Transport;
  /**
   * Milliseconds without a ping after which a client counts as gone, and its requests are aborted;
   * 0 = never. Default 10,000, ten times the default ping interval of a `Pipeline`.
   */
  deadMs?: number;
  /** The clock, in milliseconds. Default `performance.now`. */
  now?: () => number;
}

const OPTIONS = knownNames<StageServerOptions>('the options of a StageServer', {
  stage: true,
  transport: true,
  deadMs: true,
  now: true,
});
const MAX_MS = 2 ** 31 - 1;

/**
 * One stage of a pipeline in a process of its own. It serves every `Pipeline` on the same transport
 * that names the stage as `{ name, remote: true }`.
 */
export class StageServer implements AsyncDisposable {
  readonly #stage: Stage;
  readonly #ticker: Ticker;
  #isClosed: Promise<void> | null = null;

  /** @throws ERR_BLOCKSTEP_BAD_ARG, and the errors of the constructor of `Engine` */
  constructor(options: StageServerOptions) {
    if (!isObject(options)) throw badArg('options', options, 'an object');
    checkNames(options, OPTIONS);
    const { stage, transport, deadMs = 10_000, now = () => performance.now() } = options;
    checkInteger('deadMs', deadMs, 0, MAX_MS);
    if (typeof now !== 'function') throw badArg('now', now, 'a function');
    this.#stage = new Stage(parseStageOptions(stage), { transport: checkTransport(transport), now, deadMs });
    this.#ticker = new Ticker(
      () => this.#stage.tick(),
      () => true,
    );
  }

  /** Serves until `shutdown`. Like every server, it keeps the process alive meanwhile. */
  run(): void {
    this.#stage.run();
    this.#ticker.start();
  }

  /** Returns the statistics of the stage. Plain data. */
  stats(): StageStats {
    return this.#stage.stats();
  }

  /** Gives up all requests, leaves the transport and ends the engine. Idempotent. */
  shutdown(): Promise<void> {
    this.#isClosed ??= this.#end();
    return this.#isClosed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.shutdown();
  }

  async #end(): Promise<void> {
    this.#ticker.stop();
    await this.#stage.close();
    await this.#stage.engine.shutdown({ drainMs: 0 });
  }
}
