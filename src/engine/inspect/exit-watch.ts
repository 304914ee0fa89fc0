import type { EngineState } from '../state/engine-state.js';
import { explain } from './explain.js';

/** The part of the run loop that an exit watch reads. */
interface Driver {
  /** Whether the engine drives itself. */
  readonly isRunning: boolean;
  /** Whether a turn of the run loop is due, which keeps the process alive. */
  readonly isDue: boolean;
}

/**
 * The watches of this thread that have not ended. They are held weakly, so a watch keeps no engine
 * alive. One `beforeExit` listener serves all watches, and is removed with the last watch.
 */
const watches = new Set<WeakRef<ExitWatch>>();
const collected = new FinalizationRegistry<WeakRef<ExitWatch>>(forget);

/** Warns, once per engine, when the process is about to end while requests of the engine are unfinished. */
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

  /** Warns and ends the watch if the engine has unfinished requests and no step is due. */
  check(): void {
    const { streams } = this.#e;
    if (streams.size === 0 || this.#driver.isDue) return;
    // The watch ends first: in a worker thread a warning wakes the event loop, and `beforeExit` is
    // emitted again.
    forget(this.#ref);
    const { isRunning } = this.#driver;
    const [{ request }] = streams;
    const number = streams.size === 1 ? '1 unfinished request' : `${streams.size} unfinished requests`;
    const oldest = explain(this.#e, request.handle, isRunning);
    process.emitWarning(`the process ends with ${number} of an engine. The oldest: ${oldest}`, {
      type: 'BlockstepWarning',
      code: 'BLOCKSTEP_UNFINISHED',
      detail: isRunning
        ? `Call engine.resume(), give sessions their next chunk or the end of their input, or ${END}`
        : `Call engine.run(), so that they are computed, or ${END}`,
    });
  }
}

const END = 'end the engine: await engine.shutdown() computes what is left, and aborts it after drainMs';

function forget(ref: WeakRef<ExitWatch>): void {
  if (watches.delete(ref) && watches.size === 0) process.off('beforeExit', onBeforeExit);
}

/**
 * The event loop is empty. Other `beforeExit` listeners run first, because they may make engines
 * run, or end them.
 */
function onBeforeExit(): void {
  queueMicrotask(() => {
    for (const ref of [...watches]) ref.deref()?.check();
  });
}
