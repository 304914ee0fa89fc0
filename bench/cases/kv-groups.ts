// Steps and long hits with several KV cache groups.
import { type KvGroupOptions, type Plan, Scheduler } from '../../src/index.js';
import { type Effort, measure } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';
import { BLOCK_SIZE, HASH_SEED, makeDecode, Prompts } from '../workloads/workloads.js';

export const KV_GROUPS_EFFORT: Effort = { samples: 3000, warmup: 1000 };
/** A hit takes a hundred times as long as a step. */
const HIT_EFFORT: Effort = { samples: 200, warmup: 50 };
const HIT_TOKENS = 126_000;

const FULL: KvGroupOptions = { type: 'full' };
const window = (tokens: number): KvGroupOptions => ({ type: 'sliding', window: tokens });
const MODELS: Readonly<Record<string, KvGroupOptions[]>> = {
  '1 group': [FULL],
  '2 groups': [FULL, window(1024)],
  '4 groups': [FULL, window(1024), window(512), window(256)],
  'with states': [FULL, { type: 'mamba' }],
};

/** A decode step of 256 requests and the admission of a long cached prompt, by the KV cache groups of the model. */
export function benchKvGroups(effort: Effort): Row[] {
  const names = Object.keys(MODELS);
  const steps = names.map((name) => decodeRow(`256, ${name}`, MODELS[name], effort));
  const hits = names
    .slice(0, 3)
    .map((name) => hitRow(`hit of ${HIT_TOKENS.toLocaleString('en')}, ${name}`, MODELS[name]));
  return [...steps, ...hits];
}

function decodeRow(name: string, kvGroups: KvGroupOptions[], effort: Effort): Row {
  const { scheduler, step } = makeDecode(256, effort.samples + effort.warmup + 2, { kvGroups });
  const latency = measure({ run: step }, effort);
  if (scheduler.stats().numPreemptions > 0) throw new Error(`${name} preempts`);
  scheduler.dispose();
  return timeRow('kv-groups', name, latency, 256);
}

/** `schedule()` with a request whose whole prompt is cached in every group. */
function hitRow(name: string, kvGroups: KvGroupOptions[]): Row {
  const blocks = Math.ceil(HIT_TOKENS / BLOCK_SIZE) + 8;
  const scheduler = new Scheduler({
    numBlocks: blocks * kvGroups.length * 2,
    maxModelLen: HIT_TOKENS + 64,
    maxNumBatchedTokens: HIT_TOKENS + 64,
    hashSeed: HASH_SEED,
    kvGroups,
  });
  const prompts = new Prompts(HIT_TOKENS);
  const add = (): number => scheduler.add({ id: 'a', prompt: prompts.at(0, HIT_TOKENS), maxTokens: 1 });
  const end = (plan: Plan): void => {
    scheduler.update(plan, { tokens: Int32Array.of(7), counts: Int32Array.of(1) });
    scheduler.schedule();
  };
  add();
  end(scheduler.schedule());
  let plan: Plan | null = null;
  const latency = measure(
    {
      before: () => void add(),
      run: () => {
        plan = scheduler.schedule();
      },
      after: () => {
        if (plan === null || plan.numScheduledTokens[0] > BLOCK_SIZE) throw new Error(`${name} is no hit`);
        end(plan);
      },
    },
    HIT_EFFORT,
  );
  scheduler.dispose();
  return timeRow('kv-groups', name, latency);
}
