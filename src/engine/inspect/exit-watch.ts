import type { EngineState } from '../state/engine-state.js';
import { explain } from './explain.js';

/**
 * The engines of this thread that nobody has ended. Held weakly: this keeps no engine. One listener serves all of them, and
 * there is none while there are no engines.
 */
const watched = new Set<WeakRef<EngineState>>();
const collected = new FinalizationRegistry<WeakRef<EngineState>>(forget);

/**
 * Has the process warn, once for this engine, when it is about to end while requests of the engine are unfinished.
 * @returns ends that
 */
export function watchExit(e: EngineState): () => void {
  const ref = new WeakRef(e);
  collected.register(e, ref, ref);
  if (watched.size === 0) process.on('beforeExit', onBeforeExit);
  watched.add(ref);
  return () => {
    collected.unregister(ref);
    forget(ref);
  };
}

function forget(ref: WeakRef<EngineState>): void {
  if (watched.delete(ref) && watched.size === 0) process.off('beforeExit', onBeforeExit);
}

/** The event loop is empty. Other listeners have their turn first: they may set engines going, or end them. */
function onBeforeExit(): void {
  queueMicrotask(() => {
    for (const ref of [...watched]) {
      const e = ref.deref();
      if (e === undefined || !isLeftAlone(e)) continue;
      // A warning wakes the event loop of a worker, so that this event comes again.
      forget(ref);
      warn(e);
    }
  });
}

/** Whether it has requests that will not be finished. */
function isLeftAlone(e: EngineState): boolean {
  return e.streams.size > 0 && !e.driver.isDue;
}

function warn(e: EngineState): void {
  const { isRunning } = e.driver;
  const [{ request }] = e.streams;
  const number = e.streams.size === 1 ? '1 unfinished request' : `${e.streams.size} unfinished requests`;
  const oldest = explain(e, request.handle, isRunning);
  process.emitWarning(`the process ends with ${number} of an engine. The oldest: ${oldest}`, {
    type: 'BlockstepWarning',
    code: 'BLOCKSTEP_UNFINISHED',
    detail: isRunning
      ? `Wait for them, or ${END}`
      : `Call engine.run(), so that they are computed, or ${END}`,
  });
}

const END = 'end the engine: await engine.shutdown() computes what is left, and aborts it after drainMs';
