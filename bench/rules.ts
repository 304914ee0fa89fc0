// The benefit of the rules in which versions of vLLM differ (`npm run bench:rules`).
import { parseArgs } from 'node:util';
import type { SchedulerOptions } from '../src/scheduler/options/options.js';
import { carryRules, type WithRules } from '../src/scheduler/options/single-rules.js';
import type { Plan } from '../src/scheduler/plan/plan.js';
import { Scheduler } from '../src/scheduler/scheduler.js';
import { generateWorkload } from '../src/workload/generate.js';
import { readTrace } from '../src/workload/trace.js';
import type { Workload } from '../src/workload/workload.js';
import { printCosts } from './rules-cost.js';
import { answerHelp } from './usage.js';

const USAGE = `npm run bench:rules -- [--limit N] [TRACE ...]
npm run bench:rules -- --retention [--limit N] [TRACE ...]
npm run bench:rules -- --cost
What the rules in which versions of vLLM differ are worth: each default alone against May's rules, on generated requests, and on the
traces that are named (Mooncake, Azure, BurstGPT). No model runs: a step takes virtual time by its tokens.
  --limit N   requests of each workload (default 2000)
  --retention instead: what the prefix cache holds and finds with KV cache groups, by the rule retention
  --cost      instead: what a step and a release cost in processor time, beside May's in the same run`;

/** Virtual milliseconds of a step, and of each prompt token and decode in it. */
const COST = { step: 8, prefill: 1 / 30, decode: 0.05 };
/** Probability that a draft is accepted, as a threshold of a hash. */
const ACCEPTED = 0.7 * 2 ** 32;
/** Steps that a load takes. */
const LOAD_STEPS = 25;

type Rules = Partial<WithRules<SchedulerOptions>>;
type Options = WithRules<SchedulerOptions>;

/** The workload of a run beside the rules, and the rules that it is for. */
interface Scene {
  readonly name: string;
  /** Blocks for so many of the longest requests. */
  readonly room: number;
  readonly speed: number;
  readonly drafts?: number;
  readonly loads?: boolean;
  readonly groups?: NonNullable<SchedulerOptions['kvGroups']>;
  /** Tokens of a block in every group; 16 unless given. */
  readonly blockSize?: number;
  readonly rules: Readonly<Record<string, Rules>>;
}

const MAY: Rules = { like: '28be48fa' };
const PLAIN = {
  May: MAY,
  freeOrder: { ...MAY, freeOrder: 'unhashedFirst' },
  'watermark 0.02': { ...MAY, watermark: 0.02 },
  'watermark 0.05': { ...MAY, watermark: 0.05 },
  defaults: {},
} as const;
const DRAFTING = {
  May: MAY,
  freeOrder: { ...MAY, freeOrder: 'unhashedFirst' },
  admissionLookahead: { ...MAY, admissionLookahead: true },
  defaults: {},
} as const;
const LOADING = { May: MAY, loadReservation: { ...MAY, loadReservation: true }, defaults: {} } as const;

const SCENES: readonly Scene[] = [
  { name: 'roomy', room: 8, speed: 0.3, rules: PLAIN },
  { name: 'tight', room: 1.5, speed: 1, rules: PLAIN },
  { name: 'tight, eagle, 4 drafts', room: 1.5, speed: 1, drafts: 4, rules: DRAFTING },
  { name: 'tight, half of the prompts loaded', room: 1.5, speed: 1, loads: true, rules: LOADING },
];

const RETENTION = {
  'all (default)': {},
  reachable: { retention: 'reachable' },
  'each 4,096 tokens': { retention: 4096 },
  'ends alone (0)': { retention: 0 },
} as const;
/** As gpt-oss, one layer of two with a window, and as Qwen3-Next, three of four with states and blocks as large as these. */
const WINDOWED = { groups: [{ type: 'full' }, { type: 'sliding', window: 128 }] } as const;
const STATES = {
  groups: [{ type: 'full' }, ...Array.from({ length: 3 }, () => ({ type: 'mamba', mode: 'align' }) as const)],
  blockSize: 512,
} as const;
const HYBRID: readonly Scene[] = [
  { name: 'windows, roomy', room: 8, speed: 0.3, ...WINDOWED, rules: RETENTION },
  { name: 'windows, tight', room: 3, speed: 1, ...WINDOWED, rules: RETENTION },
  { name: 'states, roomy', room: 8, speed: 0.3, ...STATES, rules: RETENTION },
  { name: 'states, tight', room: 2, speed: 1, ...STATES, rules: RETENTION },
];

interface Figures {
  preemptions: number;
  /** Blocks with a hash at the end, by KV cache group. */
  cached: readonly number[];
  hitTokens: number;
  computed: number;
  outputs: number;
  steps: number;
}

/** A connector that has the first half of every second prompt, and takes its time. */
class HalfConnector {
  readonly loading: { handle: number; due: number }[] = [];
  step = 0;

  getNumNewMatchedTokens(request: { handle: number; numTokens: number }, local: number) {
    const has = request.handle % 2 === 0 ? Math.floor(request.numTokens / 2) : 0;
    const numTokens = Math.max(0, has - local);
    return { numTokens, async: numTokens > 0 };
  }

  updateStateAfterAlloc(request: { handle: number }, _blocks: unknown, external: number): void {
    if (external > 0) this.loading.push({ handle: request.handle, due: this.step + LOAD_STEPS });
  }

  buildMetadata(): null {
    return null;
  }

  requestFinished() {
    return { delayFree: false };
  }

  drainReceived(): { handle: number }[] {
    const due = this.loading.filter((load) => load.due <= this.step);
    this.loading.splice(0, this.loading.length, ...this.loading.filter((load) => load.due > this.step));
    return due.map(({ handle }) => ({ handle }));
  }
}

function hash(a: number, b: number): number {
  return (Math.imul(a ^ (b * 0x9e3779b1), 0x85ebca6b) ^ Math.imul(b + 0x7ed55d16, 0xc2b2ae35)) >>> 0;
}

/** Runs a workload in virtual time. */
function drive(workload: Workload, scene: Scene, rules: Rules): Figures {
  const { room, speed, drafts = 0, loads = false, groups, blockSize = 16 } = scene;
  const blocks = Math.ceil((workload.maxTotalTokens + drafts) / blockSize);
  const connector = loads ? new HalfConnector() : null;
  let now = 0;
  const options: Options = {
    numBlocks: 1 + Math.ceil(blocks * room),
    blockSize,
    maxModelLen: workload.maxTotalTokens + 1,
    ...(groups === undefined ? {} : { kvGroups: groups }),
    hashSeed: 0,
    deadlines: false,
    now: () => now,
    ...(drafts > 0 ? { numSpeculativeTokens: drafts, speculativeMethod: 'eagle' as const } : {}),
    ...(connector === null
      ? {}
      : { connector: connector as unknown as NonNullable<SchedulerOptions['connector']> }),
    ...rules,
  };
  using scheduler = new Scheduler(carryRules(options));
  const figures: Figures = { preemptions: 0, cached: [], hitTokens: 0, computed: 0, outputs: 0, steps: 0 };
  let next = 0;
  while (next < workload.length || scheduler.numUnfinished > 0) {
    if (scheduler.numUnfinished === 0) now = Math.max(now, workload.arrivalMs[next] / speed);
    for (; next < workload.length && workload.arrivalMs[next] / speed <= now; next++)
      scheduler.add({ id: `${next}`, prompt: workload.prompt(next), maxTokens: workload.outputTokens[next] });
    if (connector !== null) connector.step++;
    const plan = scheduler.schedule();
    figures.steps++;
    figures.computed += plan.totalTokens;
    const received = connector?.drainReceived() ?? [];
    const answer = answerOf(plan, drafts, figures.steps);
    const decodes = answer.counts.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0);
    now += COST.step + COST.prefill * (plan.totalTokens - decodes) + COST.decode * decodes;
    const outputs = scheduler.update(
      plan,
      answer,
      received.length > 0 ? { finishedReceiving: received } : undefined,
    );
    for (let i = 0; i < outputs.length; i++) figures.outputs += outputs.tokenCounts[i];
    if (drafts > 0) scheduler.updateDraftTokens(plan, draftsFor(answer.counts, drafts));
  }
  const { numPreemptions, prefixCacheHits, groups: states } = scheduler.stats();
  const cached = states.map((group) => group.cachedBlocks);
  return { ...figures, cached, preemptions: numPreemptions, hitTokens: prefixCacheHits };
}

/** One token of every entry that samples, and as many drafts as are accepted, which follows from request and step. */
function answerOf(plan: Plan, drafts: number, step: number): { tokens: Int32Array; counts: Int32Array } {
  const counts = new Int32Array(plan.numRequests);
  for (let i = 0; i < counts.length; i++) {
    if (plan.maxOutputTokens[i] === 0) continue;
    counts[i] = 1;
    while (
      counts[i] <= Math.min(drafts, plan.numDraftTokens[i]) &&
      hash(plan.requests[i].handle, step * 8 + counts[i]) < ACCEPTED
    )
      counts[i]++;
  }
  const total = counts.reduce((sum, count) => sum + count, 0);
  return { tokens: new Int32Array(total).fill(7), counts };
}

function draftsFor(sampled: Int32Array, drafts: number): { tokens: Int32Array; counts: Int32Array } {
  const counts = sampled.map((count) => (count > 0 ? drafts : 0));
  return { tokens: new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(7), counts };
}

function row(name: string, figures: Figures, withCached: boolean): string {
  const { preemptions, cached, hitTokens, computed, outputs, steps } = figures;
  const [full = 0, ...others] = cached;
  const held = withCached ? [full, others.reduce((sum, count) => sum + count, 0)] : [];
  const cells = [name, preemptions, hitTokens, (computed / outputs).toFixed(2), steps, ...held];
  return `| ${cells.map((cell) => cell.toLocaleString('en-US')).join(' | ')} |`;
}

async function printWorth(limit: number, files: readonly string[], scenes: readonly Scene[]): Promise<void> {
  const withCached = scenes === HYBRID;
  const workloads = [
    { name: 'generated', workload: generateWorkload({ requests: limit, requestRate: 10, seed: 1 }) },
  ];
  for (const file of files) {
    const { workload } = await readTrace(file, { limit });
    workloads.push({ name: (file.split('/').at(-1) ?? file).replace(/\.[a-z]+$/, ''), workload });
  }
  for (const { name, workload } of workloads) {
    for (const scene of scenes) {
      console.log(
        `\n${name}, ${workload.length} requests, ${scene.name} (room for ${scene.room} of the longest)\n`,
      );
      const [head, rule] = withCached ? [' cached of attention | of the others |', ' --: | --: |'] : ['', ''];
      console.log(`| rules | preemptions | hit tokens | computed per output | steps |${head}`);
      console.log(`| --- | --: | --: | --: | --: |${rule}`);
      for (const [rules, options] of Object.entries(scene.rules))
        console.log(row(rules, drive(workload, scene, options), withCached));
    }
  }
}

answerHelp(USAGE);
const { values, positionals } = parseArgs({
  options: { limit: { type: 'string' }, cost: { type: 'boolean' }, retention: { type: 'boolean' } },
  allowPositionals: true,
});
if (values.cost) printCosts();
else await printWorth(Number(values.limit ?? 2000), positionals, values.retention ? HYBRID : SCENES);
