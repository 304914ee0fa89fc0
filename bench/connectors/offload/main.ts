/** `npm run bench:offload`: working sets and traces; `--help` says what it measures. Prints tables in Markdown. */
import { parseArgs } from 'node:util';
import { Random } from '../../../src/base/random.js';
import { readTrace } from '../../../src/workload/trace.js';
import { describeMachine, readMachine } from '../../machine.js';
import { answerHelp } from '../../usage.js';
import { printTable } from '../support/table.js';
import { realRows } from './real-engine.js';
import { type Arrival, type VirtualResult, VirtualRun } from './virtual-engine.js';

const USAGE = `npm run bench:offload -- [--only sets,real] [--trace FILE --slower N]
What an offload to host memory brings and costs, beside the pool alone.
  sets   working sets of 0.5, 1, 3 and 10 pools in virtual time (the cost model; copies take time too)
  real   the same with the reference executor, in real time
  --trace FILE    a trace in virtual time instead, with and without an offload
  --slower N      its requests arrive N times as slowly
  --host N        pools in the host tier; default 4
  --limit N       only the first N requests`;

/** One direction of PCIe 5 x16 has 63 GB/s; a copy of scattered blocks of 2 MiB is assumed to reach 25. */
const BYTES_PER_SECOND = 25e9;
const BLOCK_SIZE = 16;
/** 60 GB of KV of 128 KiB per token, the rest of an 80 GB GPU beside 16 GB of weights. */
const POOL = 28_000;

const engine = {
  numBlocks: POOL + 1,
  blockSize: BLOCK_SIZE,
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  maxModelLen: 131_072,
  bytesPerSecond: BYTES_PER_SECOND,
};

function percent(part: number, whole: number): string {
  return `${((100 * part) / whole).toFixed(1)} %`;
}

function cells(result: VirtualResult): string[] {
  const { seconds, promptTokens, outputTokens, localHits, hostHits, ttftMs, preemptions, copiedBytes } =
    result;
  return [
    seconds.toFixed(0),
    ((promptTokens + outputTokens) / seconds).toFixed(0),
    percent(localHits, promptTokens),
    percent(hostHits, promptTokens),
    (ttftMs.mean / 1000).toFixed(2),
    (ttftMs.p50 / 1000).toFixed(2),
    (ttftMs.p99 / 1000).toFixed(2),
    String(preemptions),
    (copiedBytes / 1e12).toFixed(2),
  ];
}

const HEAD = [
  'virtual s',
  'tokens/s',
  'hits pool',
  'hits host',
  'TTFT mean s',
  'p50',
  'p99',
  'preemptions',
  'copied TB',
];

/** Requests over so many different prompts of 4,096 tokens that these fill the pool `share` times. */
function workingSet(share: number): Arrival[] {
  const length = 4096;
  const numPrompts = Math.round((share * POOL * BLOCK_SIZE) / length);
  const random = new Random(7);
  return Array.from({ length: 3000 }, () => {
    const which = random.below(numPrompts);
    return {
      arrivalMs: 0,
      maxTokens: 64,
      prompt: () => Int32Array.from({ length }, (_, i) => (i === 0 ? which : (which * 31 + i) % 50_000)),
    };
  });
}

async function sets(): Promise<void> {
  const rows: string[][] = [];
  for (const share of [0.5, 1, 3, 10]) {
    for (const hostBlocks of [0, 16 * POOL]) {
      const result = await new VirtualRun({ ...engine, hostBlocks }).run(workingSet(share), 32);
      rows.push([String(share), hostBlocks === 0 ? 'pool alone' : 'offload', ...cells(result)]);
    }
  }
  printTable(['pools', '', ...HEAD], rows);
}

async function trace(file: string, slower: number, host: number, limit: number | undefined): Promise<void> {
  const { workload } = await readTrace(file, { limit });
  const arrivals = Array.from({ length: workload.length }, (_, i) => ({
    arrivalMs: workload.arrivalMs[i] * slower,
    prompt: () => workload.prompt(i),
    maxTokens: workload.outputTokens[i],
  }));
  const rows: string[][] = [];
  for (const hostBlocks of [0, host * POOL]) {
    const result = await new VirtualRun({ ...engine, hostBlocks }).run(arrivals);
    rows.push([hostBlocks === 0 ? 'pool alone' : `offload, ${host} pools`, ...cells(result)]);
  }
  printTable(['', ...HEAD], rows);
}

answerHelp(USAGE);
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: 'sets,real' },
    trace: { type: 'string' },
    slower: { type: 'string', default: '1' },
    host: { type: 'string', default: '4' },
    limit: { type: 'string' },
  },
});
console.log(`${describeMachine(readMachine())}\n`);
if (values.trace !== undefined) {
  const limit = values.limit === undefined ? undefined : Number(values.limit);
  await trace(values.trace, Number(values.slower), Number(values.host), limit);
} else {
  const only = values.only.split(',');
  if (only.includes('sets')) await sets();
  if (only.includes('real')) printTable(...(await realRows()));
}
