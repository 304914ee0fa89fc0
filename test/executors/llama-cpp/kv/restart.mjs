// One life of an engine over llama.cpp with a tier on disk: answers the prompts, and says as JSON what came.
const { Engine } = await import(process.env.BLOCKSTEP_INDEX);
const { LlamaExecutor, openLlamaModel } = await import(
  new URL('executors/llama-cpp/index.js', process.env.BLOCKSTEP_INDEX)
);
const { offload } = await import(new URL('connectors/offload/index.js', process.env.BLOCKSTEP_INDEX));
const { path, loras, attention, cacheType, flashAttention, blockSize, numBlocks, folder, prompts, adapter } =
  JSON.parse(process.argv[2]);

const model = await openLlamaModel({ path, loras, attention });
const executor = await LlamaExecutor.create({
  ...{ model, numBlocks, blockSize, cacheType, flashAttention, maxNumSeqs: 4, threads: 1 },
  kvTransfer: folder !== null,
});
const tiers =
  folder === null
    ? {}
    : offload({
        memory: executor,
        hostBlocks: 64,
        // A stopped clock: whether the disk is asked must not depend on this machine.
        now: () => 0,
        disk: { path: folder, model: executor.kv.origin, budgetMs: 10_000 },
      });
const engine = new Engine({ numBlocks, executor, ...tiers, loadFailurePolicy: 'recompute' });
engine.run();
const texts = [];
const cached = [];
for (const prompt of prompts) {
  const { tokens, numCachedTokens } = await engine
    .submit({ prompt, maxTokens: 24, ignoreEos: true, ...(adapter !== null && { adapter }) })
    .result();
  texts.push([...tokens]);
  cached.push(numCachedTokens);
}
// The blocks of the last prompt are written with later plans.
let tail = 100;
const written = () => tiers.connector === undefined || tiers.connector.stats().disk.inFlight === 0;
do {
  const prompt = Array.from({ length: 20 }, (_, i) => tail + i);
  await engine.submit({ prompt, maxTokens: 4, ignoreEos: true }).result();
  tail++;
} while (!written() || tail < 102);
const kv = folder === null ? null : executor.kv.stats();
await engine.shutdown();
await tiers.workers?.[0].closed;
const { kernel } = model.info.attention;
model.dispose();
console.log(JSON.stringify({ texts, cached, kv, kernel }));
