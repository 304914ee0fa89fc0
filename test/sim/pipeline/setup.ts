// The setup of a run of a pipeline: its faults and their rates.
import type { KvGroupOptions } from '../../../src/scheduler/options/kv-groups.js';
import { type DrawnRules, drawRules } from '../shared/draw-rules.js';
import { drawFaults } from '../shared/draws.js';
import { Rng } from '../shared/rng.js';

/** The faults of a run, beside clients that leave. */
export const PIPELINE_FAULTS = [
  /** A message is late: others overtake it. */
  'late',
  'lost',
  'doubled',
  /** A message from long ago comes again. */
  'ghost',
  /** A stage dies and is made again under its name. */
  'restart',
  /** A stage does nothing for a while, and reads nothing. */
  'silence',
  /** An executor fails a step. */
  'stepFails',
  /** A client dies silently. */
  'clientDies',
] as const;
export type PipelineFault = (typeof PIPELINE_FAULTS)[number];

/** One stage of a run. */
export interface StageSetup {
  name: string;
  kind: 'ar' | 'generation';
  chunkTokens: number;
  maxChunksAhead: number;
  stallMs: number;
  maxTokens: number;
  numBlocks: number;
  maxNumSeqs: number;
  pipelineDepth: 1 | 2 | 3;
  enablePrefixCaching: boolean;
  /** null: one list of blocks for each request. */
  kvGroups: KvGroupOptions[] | null;
  /** The rules in which versions of vLLM differ. */
  rules: DrawnRules;
  seed: number;
}

/**
 * How bad the world is. `quiet`: nothing goes wrong. `chunks`: chunks come late, twice and in any order, all else as it should: requests have
 * to end well all the same. `deaths`: only clients die. `hostile`: everything, to messages of every kind.
 */
export type Mood = 'quiet' | 'chunks' | 'deaths' | 'hostile';

/** The setup of one run. */
export interface PipelineSetup {
  seed: number;
  mood: Mood;
  faults: Record<PipelineFault, number>;
  stages: StageSetup[];
  pingMs: number;
  deadMs: number;
  /** Milliseconds that a message takes at most. */
  latency: number;
  /** Milliseconds between two events at most. */
  tick: number;
  /** Most unfinished requests of a client. */
  crowd: number;
  /** Probability that a client aborts, per event. */
  aborts: number;
  /** Probability that a request is a session. */
  sessions: number;
  /** Ids to choose from: few, so that ids are used again at once. */
  numIds: number;
}

export const BLOCK_SIZE = 4;
export const MAX_MODEL_LEN = 96;

const MOODS: readonly Mood[] = ['quiet', 'chunks', 'hostile', 'quiet', 'hostile', 'deaths'];
/** The faults of each mood. */
const FAULTS_OF: Readonly<Record<Mood, readonly PipelineFault[]>> = {
  ...{ quiet: [], chunks: ['late', 'doubled'], deaths: ['clientDies'], hostile: PIPELINE_FAULTS },
};

/** Draws the setup of the run of this seed. */
export function drawPipelineSetup(seed: number): PipelineSetup {
  const rng = new Rng(seed, 'pipeline setup');
  const mood = MOODS[seed % MOODS.length];
  // In a hostile world each kind is left out half of the time, so that each is seen without the others too.
  const faults = drawFaults(PIPELINE_FAULTS, () =>
    mood === 'hostile' && rng.chance(0.5) ? 0 : 0.002 + rng.below(60) / 1000,
  );
  for (const fault of PIPELINE_FAULTS) if (!FAULTS_OF[mood].includes(fault)) faults[fault] = 0;
  for (const rare of ['restart', 'silence', 'clientDies'] as const) faults[rare] /= 3;
  faults.stepFails /= 4;
  // Where only waiting can tell that something was lost, waiting has to have an end.
  const isPatient = mood !== 'hostile';
  const numStages = rng.between(2, 4);
  const stallMs = rng.between(900, 3000);
  const stages = Array.from({ length: numStages }, (_, i): StageSetup => {
    const isLast = i === numStages - 1;
    return {
      name: `s${i}`,
      kind: isLast && rng.chance(0.6) ? 'generation' : 'ar',
      chunkTokens: rng.between(1, i === 0 ? 4 : 3),
      maxChunksAhead: rng.between(1, 3),
      stallMs: isPatient ? (mood === 'deaths' || rng.chance(0.5) ? 0 : 100_000) : stallMs,
      maxTokens: rng.between(2, i === 0 ? 14 : 3),
      numBlocks: rng.between(26, 40),
      maxNumSeqs: rng.between(1, 5),
      pipelineDepth: rng.between(1, 3) as 1 | 2 | 3,
      enablePrefixCaching: rng.chance(0.5),
      kvGroups: null,
      rules: {},
      seed: rng.below(1000),
    };
  });
  for (const [i, stage] of stages.entries()) {
    drawStageGroups(stage, new Rng(seed, `groups of stage ${i}`));
    drawRules(stage.rules, new Rng(seed, `rules of stage ${i}`));
  }
  return {
    ...{ seed, mood, faults, stages },
    ...{ pingMs: rng.between(20, 200), deadMs: rng.between(600, 1500) },
    ...{ latency: rng.between(1, 25), tick: rng.between(2, 12), crowd: rng.between(1, 8) },
    aborts: rng.chance(0.3) ? 0 : rng.below(12) / 100,
    sessions: rng.chance(0.5) ? 0 : 0.4,
    numIds: rng.between(2, 12),
  };
}

/** Gives every third stage KV cache groups, and a pool that is as much larger. */
function drawStageGroups(stage: StageSetup, rng: Rng): void {
  if (!rng.chance(1 / 3)) return;
  const { pipelineDepth, kind, enablePrefixCaching } = stage;
  const sliding = (): KvGroupOptions => ({ type: 'sliding', window: rng.pick([1, 5, BLOCK_SIZE, 9, 40]) });
  const chunked: KvGroupOptions = { type: 'chunked', chunk: rng.pick([BLOCK_SIZE, 6, 16]) };
  const states: KvGroupOptions = { type: 'mamba', mode: enablePrefixCaching ? 'align' : 'none' };
  // A stage with several inputs runs sessions: with states only where no step is in flight while the next one is planned.
  const hasStates = kind === 'ar' && pipelineDepth === 1 && rng.chance(0.5);
  stage.kvGroups = hasStates
    ? [{ type: 'full' }, states]
    : rng.pick([
        [{ type: 'full' }, sliding()],
        [sliding()],
        [{ type: 'full' }, sliding(), sliding()],
        [chunked],
      ]);
  stage.numBlocks *= stage.kvGroups.length;
}
