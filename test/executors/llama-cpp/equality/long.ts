// The equality with the model alone, over many seeds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openLlamaModel } from '../../../../src/executors/llama-cpp/model/llama-model.js';
import { writeRandomLora } from '../../../support/gguf/random-lora.js';
import { type RandomModel, writeRandomModel } from '../../../support/gguf/random-model.js';
import { llamaForTests } from '../../../support/llama/library.js';
import { Alone } from './alone.js';
import type { Fault } from './faulty-context.js';
import { EXACT, FLASH, ROUNDED, USUAL, USUAL_ROUNDED } from './numbers.js';
import { type RunFigures, type RunOptions, randomRun, sumOf } from './random-run.js';

const HELP = `npm run test:long -- llama [--seeds N] [--first S] [--config NAME] [--model NAME] [--fault NAME]

Random requests in random engines over llama.cpp, every token compared with that of the model alone.
  --seeds N      seeds of each configuration (default 40: some minutes on two cores)
  --first S      the first seed (default 1)
  --config NAME  greedy, drafts, sampling, both, adapters, failing, flash, usual, offload,
                 offload-flash (default: all)
  --model NAME   llama, q8, gemma3, mamba, lfm2 (default: all)
  --fault NAME   a bug to plant: token, holder, remove, draw (with sampling), adapter (with adapters),
                 block (with offload)`;

const CONFIGS: Readonly<Record<string, Partial<RunOptions>>> = {
  greedy: {},
  drafts: { drafts: true },
  sampling: { sampling: true },
  both: { sampling: true, drafts: true },
  adapters: { adapters: true, drafts: true },
  failing: { fault: 'fail' },
  flash: { numbers: FLASH },
  usual: { numbers: USUAL },
  offload: { offloads: true },
  'offload-flash': { offloads: true, numbers: FLASH, drafts: true },
};
const MODELS: Readonly<Record<string, RandomModel>> = {
  llama: {},
  q8: { weights: 'Q8_0' },
  gemma3: { architecture: 'gemma3', window: 24 },
  mamba: { architecture: 'mamba' },
  lfm2: { architecture: 'lfm2' },
};

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '40' },
    first: { type: 'string', default: '1' },
    config: { type: 'string' },
    model: { type: 'string' },
    fault: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { folder } = llamaForTests();
if (folder === null) process.exit(2);
const scratch = mkdtempSync(join(tmpdir(), 'blockstep-llama-'));
let bad = 0;
let [requests, positions] = [0, 0];
for (const [name, written] of Object.entries(MODELS)) {
  if (values.model !== undefined && values.model !== name) continue;
  const path = join(scratch, `${name}.gguf`);
  writeRandomModel(path, written);
  const loras: Record<string, string> = {};
  for (const seed of [1, 2]) {
    loras[`lora${seed}`] = join(scratch, `${name}-${seed}.lora`);
    writeRandomLora(loras[`lora${seed}`], { seed }, written);
  }
  const model = await openLlamaModel({ path, loras, libraryFolder: folder, variant: 'cpu' });
  for (const [config, options] of Object.entries(CONFIGS)) {
    if (values.config !== undefined && values.config !== config) continue;
    if (options.drafts && model.info.memory !== 'attention') continue;
    const hasBlocks = model.info.memory === 'attention' && model.info.slidingWindow === 0;
    if (options.offloads && !hasBlocks) continue;
    const isRounded = written.weights !== undefined;
    // Where logits differ a little, a draw may fall on another token whatever the gap of the two likeliest is.
    if (options.sampling && isRounded) continue;
    const plain = options.numbers ?? EXACT;
    const numbers = isRounded ? (plain === USUAL ? USUAL_ROUNDED : ROUNDED) : plain;
    const alone = await Alone.create(model, numbers, 512);
    const all: RunFigures[] = [];
    for (let seed = Number(values.first); seed < Number(values.first) + Number(values.seeds); seed++) {
      const fault = values.fault === undefined ? {} : { fault: values.fault as Fault };
      all.push(await randomRun({ model, alone, ...options, ...fault, numbers, seed }));
    }
    alone.dispose();
    const { reports, ...sum } = sumOf(all);
    requests += sum.requests;
    positions += sum.compared;
    console.log(`${name}, ${config}: ${JSON.stringify(sum)}`);
    for (const report of reports.slice(0, 6)) console.log(`  ${report.slice(0, 300)}`);
    // Of steps that are made to fail the requests end with errors.
    bad += sum.wrong + (options.fault === undefined ? sum.errors : 0);
  }
  model.dispose();
}
rmSync(scratch, { recursive: true });
console.log(
  `${positions} tokens of ${requests} requests were compared in ${Math.round(performance.now() / 1000)} s; ${bad} were wrong`,
);
if (values.fault === undefined) process.exit(bad === 0 ? 0 : 1);
console.log(bad > 0 ? 'the planted bug was noticed' : 'the planted bug was not noticed');
process.exit(bad > 0 ? 0 : 1);
