// One life of a process with llama.cpp, by name. It says what came out as JSON, and ends by itself.
const { Engine } = await import(process.env.BLOCKSTEP_INDEX);
const { LlamaExecutor, openLlamaModel } = await import(
  new URL('executors/llama-cpp/index.js', process.env.BLOCKSTEP_INDEX)
);
const path = process.env.MODEL;
const prompt = Array.from({ length: 200 }, (_, k) => 10 + ((7 * k) % 90));

async function make(model, options = {}) {
  const executor = await LlamaExecutor.create({
    model,
    numBlocks: 64,
    maxNumSeqs: 4,
    threads: 1,
    ...options,
  });
  const engine = new Engine({ numBlocks: 64, executor });
  engine.run();
  return { engine, executor };
}

const codeOf = (error) => error.code ?? String(error);

const LIVES = {
  /** Engines are made and shut down: how the memory of the process grows, in MiB, between the 20th and the last one. */
  async many() {
    const sizes = [];
    for (let i = 0; i < 100; i++) {
      const model = await openLlamaModel({ path });
      const { engine } = await make(model, { cacheType: 'f32' });
      await engine.submit({ prompt, maxTokens: 3, params: { temperature: 1 } }).result();
      await engine.shutdown();
      model.dispose();
      globalThis.gc();
      sizes.push(process.memoryUsage.rss() / 2 ** 20);
    }
    return { grown: sizes[99] - sizes[19] };
  },
  /** A step is computed while the engine is disposed. */
  async disposed() {
    const model = await openLlamaModel({ path });
    const { engine } = await make(model);
    const results = Array.from({ length: 4 }, () => engine.submit({ prompt, maxTokens: 200 }).result());
    await new Promise((resolve) => setTimeout(resolve, 3));
    const ends = Promise.allSettled(results);
    await engine.dispose();
    model.dispose();
    return (await ends).map(({ status, reason }) => (status === 'rejected' ? codeOf(reason) : 'answered'));
  },
  /** Two models at once, one of them disposed while its engine goes on. */
  async two() {
    const models = [await openLlamaModel({ path }), await openLlamaModel({ path })];
    const engines = [await make(models[0]), await make(models[1]), await make(models[0])];
    models[0].dispose();
    const results = engines.map(({ engine }) => engine.submit({ prompt, maxTokens: 12 }).result());
    const [one, two, three] = (await Promise.all(results)).map(({ tokens }) => [...tokens].join());
    for (const { engine } of engines) await engine.shutdown();
    return one === two && two === three;
  },
  /** Nothing is awaited, and nothing disposed: an idle executor keeps no process alive. */
  async idle() {
    const model = await openLlamaModel({ path });
    const { executor } = await make(model);
    return executor.stats().steps;
  },
  /** The threads of the process while nothing is computed. */
  async threads() {
    const { readdirSync } = await import('node:fs');
    const model = await openLlamaModel({ path });
    const run = ({ engine }) => engine.submit({ prompt, maxTokens: 4 }).result();
    const threads = () => readdirSync('/proc/self/task').sort();
    await run(await make(model));
    const one = threads();
    const made = await make(model, { threads: 2 });
    await run(made);
    const three = threads();
    await run(made);
    const later = threads();
    await made.engine.shutdown();
    return [one, three, later, threads()];
  },
  async exits() {
    const model = await openLlamaModel({ path });
    const { engine } = await make(model);
    for (let i = 0; i < 4; i++) void engine.submit({ prompt, maxTokens: 200 }).result();
    await new Promise((resolve) => setTimeout(resolve, 3));
    console.log(JSON.stringify('exiting'));
    process.exit(0);
  },
};

console.log(JSON.stringify(await LIVES[process.argv[2]]()));
