// Compiles consumers by several versions of TypeScript and module systems.
import { equal } from 'node:assert/strict';
import type { Project } from './project.js';

const VERSIONS = ['5.2', '5.3', '5.4', '5.5', '5.6', '5.7', '5.8', '5.9', '6.0', '7.0'];

const SOURCE = `import { Engine, type Executor, ReferenceExecutor } from 'blockstep';
import type { ConnectorRequest, SchedulerConnector, WorkerConnector } from 'blockstep/connector';
import { purgeUntracked } from 'blockstep/borrow';
import { LeaseConnector } from 'blockstep/connectors/lease';
import { MultiConnector, type MultiConnectorOptions, MultiWorker } from 'blockstep/connectors/multi';
import { offload } from 'blockstep/connectors/offload';
import { StoreConnector } from 'blockstep/connectors/store';
import { Pipeline, type PipelineStream, type StageOptions, type Transport } from 'blockstep/pipeline';
import { RedisTransport } from 'blockstep/pipeline/redis';
import { readLog } from 'blockstep/replay';
import { blockstepServer, o200k, type ServeOptions } from 'blockstep/serve';
import { parseSlo, type PlanInput } from 'blockstep/sim';
import { connectorCases, type MakeConnector } from 'blockstep/testing';
import { BlockArena, type Lane } from 'blockstep/transfer';

const options = { numBlocks: 64, blockSize: 4, maxNumSeqs: 4, maxModelLen: 64 };

export const executor: Executor = {
  execute: (plan) => ({
    tokens: Int32Array.from({ length: plan.numRequests }, () => 7),
    counts: Int32Array.from({ length: plan.numRequests }, (_, i) => Math.min(1, plan.maxOutputTokens[i])),
  }),
};
export type Mine = { connector: SchedulerConnector; worker: WorkerConnector };
export const known = ({ handle, numTokens }: ConnectorRequest): [number, number] => [handle, numTokens];
export const several = (children: MultiConnectorOptions['children']) => new MultiConnector({ children, numRanks: 1 });
export const slo: PlanInput['slo'] = parseSlo('ttft:p95<1s');
export const lanes: readonly Lane[] = [];
export const functions = [purgeUntracked, readLog];
export const classes = [BlockArena, LeaseConnector, MultiWorker, StoreConnector];
export const stage: StageOptions = { name: 'a', engine: { ...options, executor }, input: ({ tokens }) => ({ prompt: tokens }) };
export const pipeline = (transport: Transport): PipelineStream =>
  new Pipeline({ stages: [stage, { name: 'b', remote: true }], transport }).submit({ prompt: [1] }, { outputs: ['a'] });
export const redis = (): Promise<Transport> => RedisTransport.open({ url: 'redis://127.0.0.1:6379', prefix: 'p:' });
export const served = (engine: Engine): ServeOptions => ({ engine, model: { id: 'm', vocabulary: o200k, sampling: ['top_p'] } });
export const plugin: (app: object, options: ServeOptions, done: () => void) => void = blockstepServer;
const make: MakeConnector = ({ memories, makeLane }) => offload({ memory: memories, hostBlocks: 60, makeLane });
export const cases: readonly { name: string; run(): Promise<void> }[] = connectorCases({ make });

async function main(): Promise<void> {
  const engine = new Engine({ ...options, executor: new ReferenceExecutor(options) });
  void engine.run();
  const stream = engine.submit({ prompt: [1, 2, 3, 1, 2, 3, 1], maxTokens: 4 }, { signal: new AbortController().signal });
  let tokens = 0;
  for await (const output of stream) tokens += output.tokens.length;
  const { finishReason } = await stream.result();
  await engine.shutdown();
  console.log(tokens, finishReason);
}
void main();
`;

/** How a consumer is compiled: module, moduleResolution, the kind of its package.json, and with which compilers. */
const KINDS = [
  { name: 'nodenext', module: 'nodenext', resolution: 'nodenext', type: 'module', from: '5.2', to: '7.0' },
  { name: 'bundler', module: 'esnext', resolution: 'bundler', type: 'module', from: '5.2', to: '7.0' },
  // The default resolution of commonjs until 5.9, and the one that it takes from 6.0 on.
  { name: 'commonjs', module: 'commonjs', resolution: 'node10', type: 'commonjs', from: '5.2', to: '5.9' },
  { name: 'commonjs', module: 'commonjs', resolution: 'bundler', type: 'commonjs', from: '6.0', to: '7.0' },
  // Since 5.8 it knows that Node can require() a module.
  {
    name: 'nodenext, commonjs',
    module: 'nodenext',
    resolution: 'nodenext',
    type: 'commonjs',
    from: '5.8',
    to: '7.0',
  },
];

const alias = (version: string): string => `typescript-${version}`;

/**
 * Compiles a consumer by every compiler in every kind, and runs the output. The output of the
 * newest compiler runs on the other Nodes too.
 * @param few the oldest and the newest compiler of each kind
 * @returns a summary for the report
 */
export function compile(project: Project, tarball: string, nodes: readonly string[], few: boolean): string {
  const packages = VERSIONS.map((version) => `${alias(version)}@npm:typescript@${version}`);
  const quiet = ['--no-audit', '--no-fund', '--ignore-scripts'];
  project.run('npm', ['install', ...quiet, tarball, '@types/node@20', ...packages]);
  let compiled = 0;
  for (const kind of KINDS) {
    const versions = VERSIONS.filter(
      (version) =>
        version >= kind.from && version <= kind.to && (!few || version === kind.from || version === kind.to),
    );
    for (const version of versions) {
      const folder = `${kind.module}-${kind.resolution}-${kind.type}-${version}`;
      project.write(`${folder}/package.json`, JSON.stringify({ type: kind.type }));
      project.write(`${folder}/main.ts`, SOURCE);
      project.write(
        `${folder}/tsconfig.json`,
        JSON.stringify({
          compilerOptions: {
            strict: true,
            target: 'es2022',
            module: kind.module,
            moduleResolution: kind.resolution,
            outDir: 'out',
            rootDir: '.',
          },
        }),
      );
      project.run('node', [`node_modules/${alias(version)}/bin/tsc`, '-p', folder]);
      equal(project.run('node', [`${folder}/out/main.js`]), '4 length\n');
      compiled++;
      if (version !== versions.at(-1)) continue;
      for (const node of nodes) equal(project.run('node', [`${folder}/out/main.js`], node), '4 length\n');
    }
  }
  return `${compiled} consumers compiled and run, by TypeScript ${VERSIONS[0]} to ${VERSIONS.at(-1)}, on ${1 + nodes.length} versions of Node`;
}
