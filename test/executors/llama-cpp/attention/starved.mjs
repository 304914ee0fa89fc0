// A process that computes texts by a kernel of attention: starved.mjs OPTIONS, in JSON. It prints the tokens of the answer to each.
import { createRequire } from 'node:module';

const { addon: path, files, kernel, model: file, lengths } = JSON.parse(process.argv[2]);
const addon = createRequire(import.meta.url)(path);
addon.load({ ...files, attention: kernel });
const options = { gpuLayers: 0, memoryMap: true, checkTensors: false, adapters: [] };
const model = await addon.loadModel(file, options, () => {}, new Int32Array(1));
const context = await model.createContext({
  cells: 1024,
  batch: 1024,
  microBatch: 256,
  sequences: 1,
  outputs: 1,
  threads: 2,
  batchThreads: 2,
  typeK: 0,
  typeV: 0,
  flashAttention: 1,
  offloadCache: false,
  blockSize: 0,
  origin: new BigUint64Array(5),
});
const answers = [];
for (const length of lengths) {
  const at = Array.from({ length }, (_, position) => position);
  const tokens = at.map((position) => 10 + (position % 50));
  const removal = [0, 0, 0, 0, -1];
  const sample = [length - 1, 0, -1, length];
  const program = Int32Array.of(1, 1, length, 1, -1, ...removal, ...tokens, ...at, ...at.fill(0), ...sample);
  const { failure, tokens: sampled } = await context.compute(program, program.length, 0);
  answers.push({ failure, count: sampled[0] });
}
console.log(JSON.stringify(answers));
context.dispose();
model.dispose();
