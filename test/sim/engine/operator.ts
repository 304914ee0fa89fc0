import { numUsable } from '../audit/group-rules.js';
import { drawHold, type Hold } from '../shared/draws.js';
import type { Rng } from '../shared/rng.js';
import type { Client } from './clients.js';
import type { SimExecutor } from './executor.js';
import type { Stage } from './stage.js';
import type { SimConnector } from './tier/connector.js';
import type { SimWorker } from './tier/worker.js';

/**
 * The operator of the engine: holds blocks, resets the prefix cache, pauses, and fences transfers.
 */
export class Operator {
  readonly #stage: Stage;
  readonly #executor: SimExecutor;
  readonly #connector: SimConnector | null;
  readonly #workers: readonly SimWorker[];
  readonly #holds: Hold[] = [];
  #isPaused = false;

  constructor(
    stage: Stage,
    executor: SimExecutor,
    connector: SimConnector | null,
    workers: readonly SimWorker[],
  ) {
    this.#stage = stage;
    this.#executor = executor;
    this.#connector = connector;
    this.#workers = workers;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Holds that were not completed. */
  get numHolds(): number {
    return this.#holds.length;
  }

  isHeld(handle: number): boolean {
    return this.#holds.some((hold) => hold.handle === handle);
  }

  pause(mode: 'new' | 'all'): void {
    this.#isPaused = true;
    this.#stage.engine.pause(mode);
    this.#stage.note(`pause ${mode}`);
  }

  resume(): void {
    this.#isPaused = false;
    this.#stage.engine.resume();
  }

  /** Holds the blocks of a request. */
  hold(client: Client, rng: Rng): void {
    const hold = drawHold(client.stream.handle, rng);
    const { handle, kind, owner } = hold;
    for (const reason of ['duplicate-hold', 'stale-handle', 'after-reset']) this.#stage.excused.add(reason);
    const isHeld = this.#stage.engine.hold(handle, kind, owner);
    this.#stage.note(`hold ${client.name} ${kind}:${owner}: ${isHeld}`);
    if (isHeld) this.#holds.push(hold);
  }

  /** Completes one of its holds. */
  complete(): void {
    const rng = this.#stage.rng('holds');
    if (this.#holds.length === 0) return;
    const [{ handle, kind, owner }] = this.#holds.splice(rng.below(this.#holds.length), 1);
    const isCompleted = this.#stage.engine.complete(handle, kind, owner);
    this.#stage.note(`complete ${this.#stage.name(handle)} ${kind}:${owner}: ${isCompleted}`);
    if (!isCompleted)
      this.#stage.broke('I6', `${kind}:${owner} of ${this.#stage.name(handle)} was held, and is not`);
  }

  reset(rng: Rng): void {
    const options = { resetRunning: rng.chance(0.6), resetConnector: rng.chance(0.3) };
    const { local } = this.#stage.engine.resetPrefixCache(options);
    this.#stage.note(`reset ${JSON.stringify(options)}: ${local}`);
    const isEmpty = this.#stage.engine.scheduler.core.freeBlocks === numUsable(this.#stage.limits);
    if (local !== isEmpty)
      this.#stage.broke('I17', `reset answered ${local}, and all blocks are free: ${isEmpty}`);
    if (!local || (this.#connector?.open.size ?? 0) > 0) return;
    // No cached block may be found any more.
    while (this.#executor.compute());
    this.#stage.kv.forget();
    this.#stage.count('resets');
  }

  /** Ends all transfers of a child, or of all. */
  fence(child: number | undefined): void {
    const stage = this.#stage;
    const { engine } = stage;
    if (this.#connector === null) return;
    stage.note(`fence ${child ?? 'all'}`);
    for (const worker of this.#workers) worker.fence(child);
    for (const { handle, load } of engine.scheduler.inspect().requests) {
      if (load !== null) stage.blame(handle, 'load');
    }
    for (const reason of ['duplicate-completion', 'stale-handle', 'unknown-completion', 'live-completion']) {
      stage.excused.add(reason);
    }
    stage.count('fenced', engine.fenceTransfers(child));
  }
}
