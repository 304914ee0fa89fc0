import type { KvGroupOptions } from '../scheduler/options/kv-groups.js';
import type { Deadlines } from '../scheduler/request/wait.js';

/** Chances in percent, each drawn once a round unless stated otherwise. */
export interface Chances {
  /** A client comes. */
  readonly submit: number;
  /** For each client: it will abort. */
  readonly abort: number;
  /** For each client: it opens a session. */
  readonly session: number;
  /** For each client: it reuses the id of an ended request. */
  readonly sameId: number;
  /** An engine makes no step. */
  readonly idle: number;
  /** A rank computes its oldest step. */
  readonly compute: number;
  /** A lane copies half a job. */
  readonly copy: number;
  /** For each step: it fails. For each row: it fails alone. The results are left as garbage. */
  readonly stepFails: number;
  readonly rowFails: number;
  /** For each job: its copy fails. */
  readonly copyFails: number;
  /** A worker is not asked. */
  readonly skipWorker: number;
  /** For each report: it is lost. */
  readonly loseReport: number;
  /** For each report: it comes twice. */
  readonly repeatReport: number;
  /** For each question about a possible load: it is asked twice. */
  readonly askTwice: number;
  readonly reset: number;
  readonly pause: number;
  readonly fence: number;
  readonly kill: number;
}

/** The world of a case. */
export interface Scene {
  /** Name of the case. */
  readonly name: string;
  readonly numEngines: number;
  readonly numClients: number;
  readonly numBlocks: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly enablePrefixCaching: boolean;
  /** KV cache groups; null = one of full attention, or the groups that `groupsOf` draws. */
  readonly kvGroups: readonly KvGroupOptions[] | null;
  readonly loadFailurePolicy: 'fail' | 'recompute';
  readonly numSpeculativeTokens: number;
  /** Most milliseconds that pass in a round. */
  readonly msPerRound: number;
  readonly deadlines: Partial<Deadlines>;
  readonly reclaim: 'on-report' | 'on-confirmation';
  /** True: the engine is disposed in the middle of its work. */
  readonly endsEarly: boolean;
  readonly chances: Chances;
}

/** Changes to the ordinary scene. */
type Changes = Partial<Omit<Scene, 'chances'>> & { chances?: Partial<Chances> };

const CHANCES: Chances = {
  ...{ submit: 30, abort: 12, session: 0, sameId: 0, idle: 15, compute: 60, copy: 50, copyFails: 0 },
  ...{ stepFails: 0, rowFails: 0 },
  ...{ skipWorker: 0, loseReport: 0, repeatReport: 0, askTwice: 0, reset: 0, pause: 0, fence: 0, kill: 0 },
};

function scene(name: string, { chances = {}, ...changes }: Changes = {}): Scene {
  return {
    ...{ name, numEngines: 1, numClients: 36, numBlocks: 41, maxNumSeqs: 6, maxNumBatchedTokens: 48 },
    ...{
      enablePrefixCaching: true,
      kvGroups: null,
      loadFailurePolicy: 'fail',
      numSpeculativeTokens: 0,
      msPerRound: 4,
    },
    ...{
      deadlines: {},
      reclaim: 'on-report',
      endsEarly: false,
      ...changes,
      chances: { ...CHANCES, ...chances },
    },
  };
}

const HOSTILE = { abort: 25, session: 15, sameId: 20, askTwice: 20, skipWorker: 20, reset: 3, pause: 3 };

const FULL: KvGroupOptions = { type: 'full' };
const WINDOW: KvGroupOptions = { type: 'sliding', window: 6 };
/** Blocks of 16, 4 and 8 tokens. */
const SIZES: readonly KvGroupOptions[] = [
  { type: 'full', blockSize: 16 },
  { type: 'sliding', blockSize: 4, window: 11 },
  { type: 'sliding', blockSize: 8, window: 3 },
];

/** The cases with random clients, each in its own kind of world. */
export const SCENES: readonly Scene[] = [
  scene('an ordinary life gives the tokens that it gives without a connector'),
  scene('copies are slow', { chances: { copy: 8 } }),
  scene('steps are slow', { chances: { compute: 15 } }),
  scene('the pool is so small that requests are preempted', { numBlocks: 21, maxNumSeqs: 4 }),
  scene('prompts are computed in chunks', { maxNumBatchedTokens: 9 }),
  scene('there is no prefix cache', { enablePrefixCaching: false }),
  scene('clients go away in every state', { chances: { abort: 60, copy: 20 } }),
  scene('sessions', { chances: { session: 60 } }),
  scene('drafts are verified', { numSpeculativeTokens: 2 }),
  scene('the connector is asked more than once, and workers late', {
    chances: { askTwice: 50, skipWorker: 50 },
  }),
  scene('caches are reset', { chances: { reset: 12 } }),
  scene('the engine is paused and goes on', { chances: { pause: 8 } }),
  scene('ids are used again at once', { chances: { sameId: 70, abort: 30 } }),
  scene('copies fail, and requests with them', { chances: { copyFails: 15 } }),
  scene('copies fail, and are recomputed', { loadFailurePolicy: 'recompute', chances: { copyFails: 20 } }),
  scene('steps and rows fail, and the same prompts come again', {
    ...{ numClients: 60, maxNumBatchedTokens: 33 },
    chances: { stepFails: 5, rowFails: 10, copy: 25 },
  }),
  scene('reports come twice', { chances: { repeatReport: 30 } }),
  scene('reports are lost', {
    chances: { loseReport: 15 },
    deadlines: { load: 200, reclaim: 200 },
  }),
  scene('transfers take longer than their deadlines', {
    chances: { copy: 4 },
    deadlines: { load: 60, reclaim: 60 },
  }),
  scene('transfers are fenced', { loadFailurePolicy: 'recompute', chances: { fence: 4, copy: 15 } }),
  scene('everything at once', {
    ...{ numBlocks: 25, maxNumBatchedTokens: 17, loadFailurePolicy: 'recompute' },
    ...{ reclaim: 'on-confirmation', chances: { ...HOSTILE, copyFails: 10 } },
  }),
  scene('the engine is disposed while everything is under way', {
    ...{ numClients: 14, endsEarly: true },
    chances: { copy: 10, submit: 60 },
  }),
  scene('two engines', { numEngines: 2, numClients: 50, chances: HOSTILE }),
  scene('two engines and copies that fail', {
    ...{ numEngines: 2, numClients: 50, loadFailurePolicy: 'recompute' },
    chances: { ...HOSTILE, copyFails: 10 },
  }),
  scene('four engines', { numEngines: 4, numClients: 80 }),
  scene('engines are killed and begin anew', {
    ...{ numEngines: 3, numClients: 70, loadFailurePolicy: 'recompute', chances: { kill: 2 } },
    deadlines: { load: 400, reclaim: 400 },
  }),
  scene('groups: full attention and a window', { kvGroups: [FULL, WINDOW], numBlocks: 81 }),
  scene('groups: a window alone', { kvGroups: [WINDOW], numBlocks: 25, maxNumBatchedTokens: 17 }),
  scene('groups: blocks of several sizes', {
    kvGroups: SIZES,
    numBlocks: 31,
    numClients: 60,
    maxNumBatchedTokens: 23,
  }),
  scene('groups: states at the ends of blocks', {
    ...{
      kvGroups: [FULL, { type: 'mamba', mode: 'all' }],
      numBlocks: 37,
      numClients: 60,
      maxNumBatchedTokens: 19,
    },
  }),
  scene('groups: chunks, and everything at once', {
    ...{ kvGroups: [FULL, { type: 'chunked', chunk: 12 }, WINDOW], numBlocks: 61, maxNumBatchedTokens: 17 },
    ...{ loadFailurePolicy: 'recompute', reclaim: 'on-confirmation' },
    chances: { ...HOSTILE, copyFails: 10, copy: 20 },
  }),
  scene('groups: steps and rows fail, and the same prompts come again', {
    ...{ kvGroups: [FULL, WINDOW], numBlocks: 81, numClients: 60, maxNumBatchedTokens: 33 },
    chances: { stepFails: 5, rowFails: 10 },
  }),
  scene('groups: two engines, and slow copies', {
    ...{ kvGroups: SIZES, numBlocks: 41, numEngines: 2, numClients: 60, chances: { copy: 10, abort: 20 } },
  }),
];

/** Whether requests of the scene may end with an error. */
export function mayFail({ loadFailurePolicy, deadlines, chances }: Scene): boolean {
  const hasDeadlines = Object.keys(deadlines).length > 0;
  if (chances.stepFails + chances.rowFails > 0) return true;
  return hasDeadlines || (loadFailurePolicy === 'fail' && (chances.copyFails > 0 || chances.kill > 0));
}

/** Whether the scene itself causes events that a correct peer would not send. */
export function isForeign({ deadlines, chances }: Scene): boolean {
  const { loseReport, repeatReport, kill } = chances;
  return Object.keys(deadlines).length > 0 || loseReport + repeatReport + kill > 0;
}

/** Whether all events are expected. After a fence reports come late, which is nobody's mistake. */
export function isPlain(scene: Scene): boolean {
  return !isForeign(scene) && scene.chances.fence === 0;
}
