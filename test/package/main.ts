// The command `npm run test:package`.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from './project.js';
import { WAYS } from './ways.js';

const USAGE = `npm run test:package -- [WAY ...] [options]
Installs the package as others do, each way in an empty project, and runs there what they would. Needs the npm registry, and dist/
and prebuilds/ as npm run prebuild makes them. Ways (default: all):
${Object.entries(WAYS)
  .map(([name, { what }]) => `  ${name.padEnd(12)}${what}`)
  .join('\n')}
  --few          of the TypeScript compilers the oldest and the newest in each kind of module
  --node FOLDER  also on the Node whose programs are in this folder; may be given several times
Exit code: 0 every way works, 1 one does not, 2 bad arguments.`;

function readArguments(): { ways: string[]; nodes: string[]; few: boolean } {
  try {
    const { values, positionals } = parseArgs({
      options: {
        node: { type: 'string', multiple: true, default: [] },
        few: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
      allowPositionals: true,
    });
    if (values.help) {
      console.log(USAGE);
      process.exit(0);
    }
    const unknown = positionals.filter((name) => !Object.hasOwn(WAYS, name));
    if (unknown.length > 0) throw new Error(`there is no way ${unknown.join(', ')}`);
    const ways = positionals.length > 0 ? positionals : Object.keys(WAYS);
    return { ways, nodes: values.node.map((folder) => resolve(folder)), few: values.few };
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(2);
  }
}

/** npm's messages about a failure say more than its exit code. */
function describe(error: unknown): string {
  const { message, stdout, stderr } = error as Error & { stdout?: string; stderr?: string };
  return [message, stdout, stderr].filter(Boolean).join('\n');
}

const { ways, nodes, few } = readArguments();
const scratch = mkdtempSync(join(tmpdir(), 'blockstep-package-'));
let passed = 0;
try {
  const [name] = execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', scratch], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .trim()
    .split('\n')
    .slice(-1);
  for (const way of ways) {
    try {
      const seen = WAYS[way].run({ scratch, tarball: join(scratch, name), nodes, few });
      console.log(`${way}: ${seen}`);
      passed++;
    } catch (error) {
      console.error(`${way}: FAILED: ${describe(error)}`);
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
console.log(`${passed} of ${ways.length} ways to install the package work`);
process.exitCode = passed === ways.length ? 0 : 1;
