// Schedulers that are never disposed must go when nobody holds them, but not while a plan of theirs is held. Run with
// --expose-gc; prints what is left.
const { Scheduler } = await import(process.env.BLOCKSTEP_INDEX);
const tick = () => new Promise((resolve) => setImmediate(resolve));

const watched = [];
const plans = [];

function drop(n) {
  const scheduler = new Scheduler({
    numBlocks: 100_000,
    maxModelLen: 4096,
    log: n % 2 ? { write() {} } : undefined,
    now: () => scheduler.stats().step,
  });
  scheduler.add({ id: 'a', prompt: Int32Array.of(n, 2, 3), maxTokens: 4 });
  const plan = scheduler.schedule();
  if (n % 40 === 0) plans.push({ plan, tokens: plan.numScheduledTokens[0] });
  watched.push(new WeakRef(scheduler.core.native));
}

for (let n = 0; n < 200; n++) {
  drop(n);
  if (n % 10 === 9) {
    await tick();
    global.gc();
    await tick();
  }
}
const alive = watched.filter((ref) => ref.deref() !== undefined).length;
const intact = plans.every(({ plan, tokens }) => tokens === 3 && plan.numScheduledTokens[0] === 3);
process.stdout.write(JSON.stringify({ made: watched.length, alive, intact, rss: process.memoryUsage().rss }));
