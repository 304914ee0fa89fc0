// Never stops computing with llama.cpp in several engines, and loads models: the test that started it terminates it in the middle.
import { parentPort } from 'node:worker_threads';

const { Engine } = await import(process.env.BLOCKSTEP_INDEX);
const { LlamaExecutor, openLlamaModel } = await import(
  new URL('executors/llama-cpp/index.js', process.env.BLOCKSTEP_INDEX)
);
const path = process.env.MODEL;

async function live(model) {
  for (;;) {
    const executor = await LlamaExecutor.create({ model, numBlocks: 64, maxNumSeqs: 4, threads: 1 });
    const engine = new Engine({ numBlocks: 64, executor });
    engine.run();
    for (let i = 0; i < 6; i++) {
      const stream = engine.submit({
        prompt: Array.from({ length: 40 }, (_, k) => 10 + ((i * k) % 90)),
        maxTokens: 20,
      });
      stream.result().catch(() => {});
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
    await engine.shutdown({ drainMs: 0 });
  }
}

const model = await openLlamaModel({ path });
void live(model);
void live(model);
void (async () => {
  for (;;) (await openLlamaModel({ path })).dispose();
})();
parentPort.postMessage('at work');
