// One short life of a process, or of a worker, that ends with requests unfinished, or nearly. The
// important output is that on stderr.
import { isMainThread, Worker } from 'node:worker_threads';

const { Engine } = await import(process.env.BLOCKSTEP_INDEX);

const answerOf = (plan) => ({
  counts: Int32Array.from({ length: plan.numRequests }, (_, i) => Math.min(1, plan.maxOutputTokens[i])),
  tokens: new Int32Array(plan.numRequests).fill(plan.step),
});

/** A program holds its engine; an engine that nobody holds may be collected before the end. */
const held = [];

function make() {
  const engine = new Engine({ numBlocks: 100, maxModelLen: 512, executor: { execute: answerOf } });
  held.push(engine);
  return engine;
}

const input = (id) => ({ id, prompt: Int32Array.of(1, 2, 3), maxTokens: 5 });
const print = (value) => process.stdout.write(JSON.stringify(value));
const listeners = () => process.listenerCount('beforeExit');

const LIVES = {
  'nobody runs it'() {
    const engine = make();
    for (const id of ['a', 'b', 'c']) engine.submit(input(id));
  },
  'two engines'() {
    for (const id of ['a', 'b']) make().submit(input(id));
  },
  'somebody made steps'() {
    const engine = make();
    engine.submit(input('a'));
    engine.step();
  },
  'it was stopped'() {
    const engine = make();
    void engine.run();
    engine.submit(input('a'));
    engine.stop();
  },
  'it is paused'() {
    const engine = make();
    void engine.run();
    engine.pause('all');
    engine.submit(input('a'));
  },
  async 'somebody awaits a result'() {
    await make().submit(input('a')).result();
  },
  /** After the warning the process lives on for a while, twice: it is not warned again. */
  'the event comes more than once'() {
    const engine = make();
    engine.submit(input('a'));
    let left = 2;
    process.on('beforeExit', () => left-- > 0 && setTimeout(() => {}, 1));
  },
  'in a worker'() {
    new Worker(new URL(import.meta.url), { argv: ['nobody runs it'] });
  },

  async 'shut down'() {
    const engine = make();
    const stream = engine.submit(input('a'));
    void engine.shutdown();
    print((await stream.result()).finishReason);
  },
  disposed() {
    const engine = make();
    engine.submit(input('a'));
    const before = listeners();
    engine.dispose();
    print([before, listeners()]);
  },
  async 'all done'() {
    const engine = make();
    void engine.run();
    print((await engine.submit(input('a')).result()).finishReason);
  },
  aborted() {
    const engine = make();
    engine.submit(input('a')).abort();
    engine.submit(input('b'), { signal: AbortSignal.abort() });
    print(engine.numUnfinished);
  },
  'a listener of the program ends it'() {
    const engine = make();
    const stream = engine.submit(input('a'));
    process.on('beforeExit', () => engine.shutdown());
    process.on('exit', () => print(stream.numOutputTokens));
  },
  'a listener of the program runs it'() {
    const engine = make();
    const stream = engine.submit(input('a'));
    process.once('beforeExit', () => engine.run());
    process.on('exit', () => print(stream.numOutputTokens));
  },
  /** Engines that nobody holds are collected, and with the last of them the listener goes. */
  async collected() {
    for (let i = 0; i < 50; i++) make().submit(input(`r${i}`));
    held.length = 0;
    const before = listeners();
    for (let i = 0; i < 50 && listeners() > 0; i++) {
      globalThis.gc();
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    print([before, listeners()]);
  },
};

if (isMainThread || process.argv[2] !== 'in a worker') await LIVES[process.argv[2]]();
