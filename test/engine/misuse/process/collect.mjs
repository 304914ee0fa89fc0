// Engines, streams and results that nobody holds must go, also if they were never disposed. Run
// with --expose-gc; prints what is left.
const { Engine } = await import(process.env.BLOCKSTEP_INDEX);
const tick = () => new Promise((resolve) => setImmediate(resolve));

const watched = { engines: [], streams: [] };
const signal = new AbortController().signal;

function drop(n) {
  const engine = new Engine({
    numBlocks: 10_000,
    maxModelLen: 4096,
    executor: {
      execute: (plan) => ({
        counts: new Int32Array(plan.numRequests).fill(1),
        tokens: new Int32Array(plan.numRequests),
      }),
    },
  });
  const stream = engine.submit({ prompt: Int32Array.of(n, 2, 3), maxTokens: 4 }, n % 2 ? { signal } : {});
  for (let i = 0; i < (n % 3 === 0 ? 2 : 6); i++) engine.step();
  // An engine with an open request and a signal that outlives the engine is held by the signal, as
  // it should be. So this engine is disposed.
  if (n % 2 === 1 && n % 3 === 0) engine.dispose();
  watched.engines.push(new WeakRef(engine.scheduler.core.native));
  watched.streams.push(new WeakRef(stream));
}

for (let n = 0; n < 120; n++) {
  drop(n);
  if (n % 10 === 9) {
    await tick();
    global.gc();
    await tick();
  }
}
const alive = (refs) => refs.filter((ref) => ref.deref() !== undefined).length;
const { getEventListeners } = await import('node:events');
process.stdout.write(
  JSON.stringify({
    engines: alive(watched.engines),
    streams: alive(watched.streams),
    listeners: getEventListeners(signal, 'abort').length,
  }),
);
