import type { EngineState } from '../state/engine-state.js';
import { explain } from './explain.js';

/** What an exit watch asks of the run loop. */
interface Driver {
  /** Whether the engine drives itself. */
  readonly isRunning: boolean;
  /** Whether it is about to make a step, for which the process stays alive. */
  readonly isDue: boolean;
}

/**
 * The watches of this thread that nobody has ended. Held weakly: a watch keeps no engine alive. One listener serves all of them,
 * and there is none while there are no watches.
 */
const watches = new Set<WeakRef<ExitWatch>>();
const collected = new FinalizationRegistry<WeakRef<ExitWatch>>(forget);

/** Has the process warn, once per engine, when it is about to end while requests of the engine are unfinished. */
export class ExitWatch {
  readonly #e: EngineState;
  readonly #driver: Driver;
  readonly #ref = new WeakRef<ExitWatch>(this);

  constructor(e: EngineState, driver: Driver) {
    this.#e = e;
    this.#driver = driver;
    collected.register(this, this.#ref, this.#ref);
    if (watches.size === 0) process.on('beforeExit', onBeforeExit);
    watches.add(this.#ref);
  }

  /** Ends the watch: the engine was disposed. */
  end(): void {
    collected.unregister(this.#ref);
    forget(this.#ref);
  }

  /** Warns, and ends the watch, if the engine has requests that nobody will finish. */
  check(): void {
    const { streams } = this.#e;
    if (streams.size === 0 || this.#driver.isDue) return;
    // A warning wakes the event loop of a worker, so that `beforeExit` comes again.
    forget(this.#ref);
    const { isRunning } = this.#driver;
    const [{ request }] = streams;
    const number = streams.size === 1 ? '1 unfinished request' : `${streams.size} unfinished requests`;
    const oldest = explain(this.#e, request.handle, isRunning);
    process.emitWarning(`the process ends with ${number} of an engine. The oldest: ${oldest}`, {
      type: 'BlockstepWarning',
      code: 'BLOCKSTEP_UNFINISHED',
      detail: isRunning
        ? `Wait for them, or ${END}`
        : `Call engine.run(), so that they are computed, or ${END}`,
    });
  }
}

const END = 'end the engine: await engine.shutdown() computes what is left, and aborts it after drainMs';

function forget(ref: WeakRef<ExitWatch>): void {
  if (watches.delete(ref) && watches.size === 0) process.off('beforeExit', onBeforeExit);
}

/** The event loop is empty. Other listeners have their turn first: they may set engines going, or end them. */
function onBeforeExit(): void {
  queueMicrotask(() => {
    for (const ref of [...watches]) ref.deref()?.check();
  });
}
