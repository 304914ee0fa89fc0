// The ways to install the package, and the checks of each.
import { equal, match, ok } from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { quickStart } from '../support/quick-start.js';
import { compile } from './compilers.js';
import { tryBuiltModel, tryModel } from './model.js';
import { Project, ROOT } from './project.js';

export interface Place {
  /** The folder for projects. */
  scratch: string;
  tarball: string;
  /** Folders with a `node` of another version. */
  nodes: readonly string[];
  /** Whether the oldest and the newest compiler will do. */
  few: boolean;
}

interface Way {
  what: string;
  /**
   * Installs and looks. @returns a summary for the report @throws if something is not as it should
   * be
   */
  run(place: Place): string;
}

const QUIET = ['--no-audit', '--no-fund'];
const ADDON = 'node_modules/blockstep/native/build/Release/blockstep.node';
const HEADLESS = ['install', ...QUIET, '--ignore-scripts'];
const { peerDependencies: PEERS } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  peerDependencies: Readonly<Record<string, string>>;
};

/** Checks that the command line works, and that an engine computes. */
function tryOut(project: Project, node?: string): string {
  match(project.run('npx', ['blockstep', '--help'], node), /replay/);
  match(project.run('npx', ['blockstep', 'replay', '--help'], node), /--num-blocks/);
  const report = JSON.parse(
    project.run('npx', ['blockstep', 'replay', '--requests', '50', '--json'], node),
  ) as {
    requests: { finished: number };
  };
  equal(report.requests.finished, 50);
  match(project.run('npx', ['blockstep', 'replay', '--requests', '50', '--report', 'page.html'], node), /50/);
  project.write(
    'backends.mjs',
    `import { probeBackends } from 'blockstep'; console.log(JSON.stringify(probeBackends()))`,
  );
  match(project.run('node', ['backends.mjs'], node), /host/);
  return project.run('node', ['--version'], node).trim();
}

function tryQuickStart(project: Project, node?: string): void {
  const { program, printed } = quickStart();
  project.write('quick-start.mjs', program);
  equal(project.run('node', ['quick-start.mjs'], node), printed);
}

/** Connectors and pipelines load without the packages that only they need, and say what is missing when they are used. */
function tryConnectors(project: Project, node?: string): void {
  project.write(
    'connectors.mjs',
    `import { LeaseWorker, ZmqLink } from 'blockstep/connectors/lease';
import { MultiConnector } from 'blockstep/connectors/multi';
import { offload } from 'blockstep/connectors/offload';
import { StoreConnector } from 'blockstep/connectors/store';
import { ReferenceExecutor } from 'blockstep';
import { Pipeline } from 'blockstep/pipeline';
import { connectorCases } from 'blockstep/testing';

const sizes = { numBlocks: 64, blockSize: 4, maxNumSeqs: 4, maxModelLen: 64 };
const engine = () => ({ ...sizes, executor: new ReferenceExecutor(sizes) });
const pipeline = new Pipeline({ stages: [{ name: 'a', engine: engine() }, { name: 'b', engine: engine() }] });
pipeline.run();
const { finishReason } = await pipeline.submit({ prompt: [1, 2, 3], maxTokens: 4 }).result();
if (finishReason !== 'length') throw new Error(finishReason);
await pipeline.shutdown();
if ([LeaseWorker, MultiConnector].some((each) => typeof each !== 'function')) throw new Error('not exported');
const make = ({ memories, makeLane }) => offload({ memory: memories, hostBlocks: 60, makeLane });
await connectorCases({ make, seeds: [1] })[0].run();
const format = { model: 'm', layout: 'l', dtype: 'bf16', bytesPerBlock: 64 };
const uses = {
  iovalkey: () => new StoreConnector({ store: { url: 'redis://127.0.0.1:1' }, format }),
  zeromq: () => ZmqLink.open({ address: 'tcp://127.0.0.1:0' }),
};
for (const [name, use] of Object.entries(uses)) {
  try {
    await use();
    console.log(name, 'is there');
  } catch ({ code, message }) {
    console.log(code, message.match(/npm install \\S+/)?.[0]);
  }
}
`,
  );
  const said = project.run('node', ['connectors.mjs'], node);
  for (const name of ['iovalkey', 'zeromq'])
    match(said, new RegExp(`ERR_BLOCKSTEP_NO_PACKAGE npm install ${name}@`));
  equal(missingForRedis(project, node), 'iovalkey');
}

/** The command serves: it streams text, and ends when it is asked to. */
function tryServe(project: Project, node?: string): void {
  project.write(
    'serve.mjs',
    `import { spawn } from 'node:child_process';
import { once } from 'node:events';

const server = spawn(process.execPath, ['node_modules/blockstep/dist/cli/main.js', 'serve', '--port', '0', '--latency-ms', '0']);
let said = '';
server.stderr.pipe(process.stderr);
for await (const text of server.stdout.setEncoding('utf8')) {
  said += text;
  if (said.includes('Try:')) break;
}
const [url] = /http:\\S+/.exec(said);
const body = JSON.stringify({ prompt: 'x one two three one', max_tokens: 2, stream: true });
const response = await fetch(url + '/v1/completions', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
const text = await response.text();
const [code] = await Promise.all([once(server, 'exit').then(([status]) => status), server.kill('SIGTERM')]);
console.log([...text.matchAll(/"text":"([^"]*)"/g)].map(([, piece]) => piece).join(''), code);
`,
  );
  equal(project.run('node', ['serve.mjs'], node), ' two three 0\n');
}

/** Most bytes of the package with its dependencies, on a disk. */
const MOST_BYTES = 16_000_000;

/** Bytes of a folder and of all that is in it. */
function weigh(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

/** The package that a transport over Redis says is to be installed; empty: none. */
function missingForRedis(project: Project, node?: string): string {
  project.write(
    'transport.mjs',
    `import { RedisTransport } from 'blockstep/pipeline/redis';

try {
  await RedisTransport.open({ url: 'redis://127.0.0.1:1' });
} catch ({ code, message }) {
  console.log(code, message);
}
`,
  );
  const said = project.run('node', ['transport.mjs'], node);
  if (said === '') return '';
  match(said, /^ERR_BLOCKSTEP_NO_PACKAGE a transport over Redis or Valkey needs/);
  return /npm install (\S+)@/.exec(said)?.[1] ?? said;
}

/** A transport over Redis needs two packages: it names each that is missing, and none when both are there. */
function tryTransport(project: Project): void {
  for (const [name, next] of [
    ['iovalkey', '@msgpack/msgpack'],
    ['@msgpack/msgpack', ''],
  ]) {
    project.run('npm', [...HEADLESS, `${name}@${PEERS[name]}`]);
    equal(missingForRedis(project), next);
  }
}

/** Nothing was compiled: the loaded addon came with the package. */
function checkCarried(project: Project): void {
  equal(existsSync(join(project.folder, ADDON)), false);
}

function npm(version: string): Way {
  return {
    what: `npm ${version}, with install scripts as it treats them, no compiler`,
    run({ scratch, tarball }) {
      const project = new Project(scratch);
      const command = ['--yes', `npm@${version}`];
      project.run('npx', [...command, 'install', '--engine-strict', ...QUIET, tarball]);
      // The script that an operator is asked to allow is the script that would run.
      match(
        project.run('npx', [...command, 'install-scripts', 'ls']),
        /blockstep.*node native\/tools\/install\.mjs/,
      );
      checkCarried(project);
      const bytes = weigh(join(project.folder, 'node_modules'));
      ok(bytes < MOST_BYTES, `it brings ${bytes} bytes`);
      return `installed, with ${(bytes / 2 ** 20).toFixed(1)} MiB; ${tryOut(project)}`;
    },
  };
}

export const WAYS: Readonly<Record<string, Way>> = {
  'no-scripts': {
    what: 'npm install --ignore-scripts, no compiler: the quick start, a model in a file, the command line on every Node',
    run({ scratch, tarball, nodes }) {
      const project = new Project(scratch);
      project.run('npm', [...HEADLESS, tarball, 'gpt-tokenizer@^4.0.0']);
      checkCarried(project);
      const versions = [undefined, ...nodes].map((node) => {
        tryQuickStart(project, node);
        tryConnectors(project, node);
        tryServe(project, node);
        return tryOut(project, node);
      });
      tryTransport(project);
      tryModel(project, [undefined, ...nodes]);
      return `the quick start prints what the README says, a model in a file answers, the command line works on ${versions.join(', ')}`;
    },
  },
  npm11: npm('11'),
  npm12: npm('12'),
  pnpm: {
    what: 'pnpm, which runs no install scripts unasked, no compiler',
    run({ scratch, tarball }) {
      const project = new Project(scratch);
      project.run('npx', ['--yes', 'pnpm@10', 'add', tarball]);
      checkCarried(project);
      return `installed; ${tryOut(project)}`;
    },
  },
  yarn: {
    what: 'yarn 1, which refuses what asks for a newer Node, no compiler',
    run({ scratch, tarball }) {
      const project = new Project(scratch);
      project.run('npx', ['--yes', 'yarn@1', 'add', '--silent', '--ignore-scripts', `file:${tarball}`]);
      checkCarried(project);
      return `installed; ${tryOut(project)}`;
    },
  },
  git: {
    what: 'a git dependency: npm builds it with the tools of this machine (host alone)',
    run({ scratch }) {
      if (!existsSync(join(ROOT, '.git'))) return 'skipped, since this tree is no git repository';
      const project = new Project(scratch);
      const copy = join(project.folder, 'repository');
      execFileSync('git', ['clone', '--quiet', '--depth', '1', `file://${ROOT}`, copy]);
      project.runWithTools('npm', ['install', ...QUIET, '--allow-git=all', `git+file://${copy}`], {
        BLOCKSTEP_CUDA: 'OFF',
      });
      return `built and installed; ${tryOut(project)}`;
    },
  },
  rebuild: {
    what: 'npm rebuild blockstep where the package carries no addon: CMake, then a compiler alone',
    run({ scratch, tarball }) {
      const project = new Project(scratch);
      project.run('npm', [...HEADLESS, tarball]);
      tryModel(project);
      const inside = (path: string) => join(project.folder, 'node_modules', 'blockstep', path);
      rmSync(inside('prebuilds'), { recursive: true });
      project.runWithTools('npm', ['rebuild', 'blockstep'], { BLOCKSTEP_CUDA: 'OFF' });
      for (const name of ['blockstep', 'blockstep_llama'])
        equal(existsSync(inside(`native/build/Release/${name}.node`)), true);
      const version = tryOut(project);
      tryBuiltModel(project);
      rmSync(inside('native/build'), { recursive: true });
      // The line that the error names.
      project.runWithTools('npm', ['explore', 'blockstep', '--', 'npm', 'run', 'build:gyp']);
      equal(existsSync(inside('native/gyp/build/Release/blockstep_host.node')), true);
      tryOut(project);
      tryBuiltModel(project);
      return `built both ways; ${version}`;
    },
  },
  types: {
    what: 'TypeScript 5.2 to 7.0 without skipLibCheck, as nodenext, bundler and commonjs; what comes out runs',
    run: ({ scratch, tarball, nodes, few }) => compile(new Project(scratch), tarball, nodes, few),
  },
};
