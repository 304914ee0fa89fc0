// `npm run mutate:guards -- [F10 ...]`: removes guards in a copy, and runs the tests of the
// failure, which must turn red. If the text of a mutation is not in the source any more, the
// mutation counts as unseen.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { addonInUse } from '../support/addon.js';
import type { Edit, Mutation } from './mutations/mutation.js';

const USAGE = `npm run mutate:guards -- [F10 ...]
Takes each guard of these failures (default: of all) out of a copy of the source, and runs the tests of that failure there.
  --list       names the mutations and runs nothing
  --timeout S  seconds that the tests of one mutation may take; what takes longer counts as seen (default 120)
Exit code: 0 every mutation was seen, 1 one survived or does not apply, 2 bad arguments.`;

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LISTS = fileURLToPath(new URL('mutations', import.meta.url));
const COPIED = ['src', 'test', 'package.json', 'tsconfig.json'];
const LINKED = ['node_modules', 'native'];

interface Arguments {
  failures: ReadonlySet<string>;
  listOnly: boolean;
  timeoutMs: number;
}

/** Throws for bad arguments. */
function parse(known: ReadonlySet<string>): Arguments {
  const { values, positionals } = parseArgs({
    options: {
      list: { type: 'boolean' },
      timeout: { type: 'string', default: '120' },
      help: { type: 'boolean', short: 'h' },
    },
    allowPositionals: true,
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const seconds = Number(values.timeout);
  if (!Number.isInteger(seconds) || seconds < 1)
    throw new Error(`--timeout takes a number of seconds, got ${values.timeout}`);
  const unknown = positionals.filter((failure) => !known.has(failure));
  if (unknown.length > 0) throw new Error(`no mutation for ${unknown.join(', ')}`);
  const failures = positionals.length === 0 ? known : new Set(positionals);
  return { failures, listOnly: values.list ?? false, timeoutMs: 1000 * seconds };
}

async function readMutations(): Promise<Mutation[]> {
  const files = readdirSync(LISTS).filter(
    (name) => name.endsWith('.ts') && name !== 'mutation.ts' && !name.endsWith('.test.ts'),
  );
  const all: Mutation[] = [];
  for (const file of files.sort()) {
    const list = (await import(join(LISTS, file))) as { mutations?: readonly Mutation[] };
    if (list.mutations === undefined) throw new Error(`${file} exports no mutations`);
    all.push(...list.mutations);
  }
  return all.sort((a, b) => Number(a.failure.slice(1)) - Number(b.failure.slice(1)));
}

/** A copy of the sources and the tests; files that are only read are linked. */
function makeCopy(): string {
  const copy = mkdtempSync(join(tmpdir(), 'blockstep-mutants-'));
  for (const name of COPIED) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(copy, name));
  return copy;
}

/** The files as they are with these edits; throws if one does not apply. */
function edit(copy: string, edits: readonly Edit[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { file, find, replace } of edits) {
    const text = texts.get(file) ?? readFileSync(join(copy, file), 'utf8');
    const times = text.split(find).length - 1;
    if (times !== 1) throw new Error(`its text stands ${times} times in ${file}`);
    texts.set(
      file,
      text.replace(find, () => replace),
    );
  }
  return texts;
}

interface Run {
  passed: number;
  failed: number;
  hung: boolean;
}

/** Runs the tests whose names begin with the failure; without one, the whole files. */
function runTests(copy: string, files: readonly string[], failure: string | null, timeout: number): Run {
  const report = join(copy, 'report.json');
  rmSync(report, { force: true });
  const vitest = join(copy, 'node_modules', 'vitest', 'vitest.mjs');
  const flags = ['run', '--config', 'test/vitest.config.ts', '--reporter=json', `--outputFile=${report}`];
  const which = failure === null ? [] : ['-t', `(^| )${failure} `];
  const { error } = spawnSync(process.execPath, [vitest, ...flags, ...which, ...files], {
    cwd: copy,
    // So many random lives as show every mutation: `npm test` has fewer.
    env: { BLOCKSTEP_SEEDS: '40', ...process.env, BLOCKSTEP_ADDON: addonInUse() },
    stdio: 'ignore',
    timeout,
    killSignal: 'SIGTERM',
  });
  const hung = (error as NodeJS.ErrnoException | undefined)?.code === 'ETIMEDOUT';
  if (hung) return { passed: 0, failed: 0, hung };
  const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, 'utf8')) as Record<
    string,
    number
  >;
  return { passed: numPassedTests, failed: numFailedTests, hung };
}

/** The outcome of one mutation, in words; `seen` begins what is well. */
function judge(copy: string, mutation: Mutation, timeoutMs: number): string {
  const { failure, test, also = [] } = mutation;
  let texts: Map<string, string>;
  try {
    texts = edit(copy, [mutation, ...also]);
  } catch (error) {
    return `DOES NOT APPLY: ${(error as Error).message}`;
  }
  const before = new Map([...texts.keys()].map((file) => [file, readFileSync(join(copy, file), 'utf8')]));
  for (const [file, text] of texts) writeFileSync(join(copy, file), text);
  const { passed, failed, hung } = runTests(copy, [test], failure, timeoutMs);
  for (const [file, text] of before) writeFileSync(join(copy, file), text);
  if (hung) return 'seen: the tests hang';
  if (passed + failed === 0) return `DOES NOT APPLY: ${test} has no test whose name has ${failure}`;
  return failed > 0 ? `seen: ${failed} of ${passed + failed} tests fail` : `SURVIVED ${passed} tests`;
}

function run(mutations: readonly Mutation[], { listOnly, timeoutMs }: Arguments): number {
  const nameOf = ({ failure, file, means, find }: Mutation) =>
    `${failure.padEnd(4)} ${file}: ${means ?? find.split('\n')[0].trim()}`;
  if (listOnly) {
    for (const mutation of mutations) console.log(nameOf(mutation));
    return 0;
  }
  const copy = makeCopy();
  try {
    const files = [...new Set(mutations.map(({ test }) => test))];
    const sound = runTests(copy, files, null, 5 * timeoutMs);
    console.log(`without a mutation: ${sound.passed} tests pass, ${sound.failed} fail`);
    if (sound.hung || sound.failed > 0 || sound.passed === 0) return 1;
    let unseen = 0;
    for (const mutation of mutations) {
      const verdict = judge(copy, mutation, timeoutMs);
      if (!verdict.startsWith('seen')) unseen++;
      console.log(`${nameOf(mutation)}\n     ${verdict}`);
    }
    console.log(`${mutations.length - unseen} of ${mutations.length} mutations were seen`);
    return unseen === 0 ? 0 : 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

async function main(): Promise<number> {
  const all = await readMutations();
  let given: Arguments;
  try {
    given = parse(new Set(all.map(({ failure }) => failure)));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  return run(
    all.filter(({ failure }) => given.failures.has(failure)),
    given,
  );
}

process.exitCode = await main();
