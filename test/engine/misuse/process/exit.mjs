// One short life of a process with an engine in it, by name. It must end by itself, and prints what it saw.
const { Engine } = await import(process.env.BLOCKSTEP_INDEX);

const answerOf = (plan) => ({
  counts: Int32Array.from({ length: plan.numRequests }, (_, i) => Math.min(1, plan.maxOutputTokens[i])),
  tokens: new Int32Array(plan.numRequests).fill(plan.step),
});

function make(execute = answerOf, options = {}) {
  return new Engine({ numBlocks: 100, maxModelLen: 512, hashSeed: 1, executor: { execute }, ...options });
}

const input = () => ({ prompt: Int32Array.of(1, 2, 3), maxTokens: 5 });
const later = (plan) => new Promise((resolve) => setTimeout(resolve, 1, answerOf(plan)));
const print = (value) => process.stdout.write(JSON.stringify(value));

async function read(engine) {
  const tokens = [];
  for await (const output of engine.submit(input())) tokens.push(...output.tokens);
  return tokens;
}

const LIVES = {
  /** An engine that runs and has nothing to do keeps nothing alive. */
  async idle() {
    const engine = make();
    void engine.run();
    print(await read(engine));
  },
  async 'idle, answered later'() {
    const engine = make(later, { pipelineDepth: 3 });
    void engine.run();
    print(await read(engine));
  },
  /**
   * An engine that was never disposed, with requests that nobody reads: the requests are computed,
   * then the process ends.
   */
  abandoned() {
    const engine = make();
    void engine.run();
    for (let i = 0; i < 5; i++) engine.submit(input());
    process.on('exit', () => print(engine.stats().scheduler.finished.length));
  },
  async disposed() {
    const engine = make(later);
    void engine.run();
    const reading = read(engine).catch(({ code }) => code);
    setTimeout(() => engine.dispose(), 3);
    print(await reading);
  },
  /** A shutdown that is awaited keeps the process alive until it is over, even if nothing else does. */
  async 'shut down'() {
    const engine = make(() => new Promise(() => {}));
    const stream = engine.submit(input());
    const before = performance.now();
    await engine.shutdown({ drainMs: 60 });
    print([(await stream.result()).finishReason, performance.now() - before >= 59]);
  },
  /** An executor whose disposal never ends, and nobody who awaits it. */
  async 'dispose fails'() {
    const codes = [];
    const later = () => Promise.reject(new Error('mine'));
    const atOnce = () => {
      throw new Error('mine');
    };
    const hung = () => new Promise(() => {});
    for (const [execute, dispose] of [
      [answerOf, later],
      [answerOf, atOnce],
      [hung, later],
    ]) {
      const engine = new Engine({ numBlocks: 100, executor: { execute, dispose }, executorTimeoutMs: 2 });
      engine.submit(input());
      try {
        engine.step();
        await new Promise((resolve) => setTimeout(resolve, 5));
        engine.step();
      } catch ({ code }) {
        codes.push(code);
      }
      try {
        engine.dispose();
        codes.push('disposed');
      } catch ({ code }) {
        codes.push(code);
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    print(codes);
  },
  async 'shut down while stalled'() {
    const engine = make();
    void engine.run();
    const stream = engine.submit(input());
    engine.hold(stream.handle, 'store', 'job');
    await stream.result();
    await new Promise((resolve) => setTimeout(resolve, 10));
    // Now the engine has just set its timer of a millisecond, which keeps nothing alive.
    await new Promise((resolve) => setImmediate(resolve));
    const before = performance.now();
    await engine.shutdown({ drainMs: 60 });
    print(performance.now() - before >= 59);
  },
  /** A wait for something that never comes does not keep a process alive. */
  async stalled() {
    const engine = make();
    void engine.run();
    const stream = engine.submit(input());
    engine.hold(stream.handle, 'store', 'job');
    print((await stream.result()).finishReason);
  },
  async broken() {
    const engine = make(() => new Promise(() => {}), { executorTimeoutMs: 20 });
    void engine.run();
    print(
      await engine
        .submit(input())
        .result()
        .catch(({ code }) => code),
    );
  },
  'exits at work'() {
    const engine = make(later, { pipelineDepth: 2 });
    void engine.run();
    for (let i = 0; i < 20; i++) engine.submit({ ...input(), maxTokens: 400 });
    setTimeout(() => {
      print('exiting');
      process.exit(0);
    }, 5);
  },
  async 'no handles or listeners are left'() {
    const engine = make(later);
    void engine.run();
    const controller = new AbortController();
    await engine.submit(input(), { signal: controller.signal }).result();
    await engine.shutdown();
    await new Promise((resolve) => setImmediate(resolve));
    const { getEventListeners } = await import('node:events');
    print([
      process.getActiveResourcesInfo().filter((name) => /Timeout|Immediate/.test(name)),
      getEventListeners(controller.signal, 'abort').length,
    ]);
  },
};

await LIVES[process.argv[2]]();
