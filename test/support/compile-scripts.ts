import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CompiledScripts, isFresh, LIST } from '../../src/connectors/base/compiled-scripts.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = join(ROOT, 'build', 'compiled');
const SELF = 'test/support/compile-scripts.ts';
const DAY_MS = 86_400_000;
/** What tests start in threads and processes of their own, again and again. */
const SCRIPTS = [
  'src/connectors/store/client/thread-main.ts',
  'src/connectors/store/stores/file-check-main.ts',
  'test/connectors/lease/process/child.ts',
  'test/connectors/store/support/writer.ts',
  'test/pipeline/process/child.ts',
  'test/sim/main.ts',
];

/**
 * Before all suites: compiles the scripts of threads and processes, with everything that they import. Compiled they start in
 * a tenth of the processor time that `tsx` takes. Who starts them looks whether a source has changed since (`isFresh`), so
 * that nothing is tested that was there before.
 */
export default async function compileScripts(): Promise<void> {
  process.env['BLOCKSTEP_COMPILED'] = latest() ?? (await compile());
}

/** What an earlier run has compiled, if no source has changed since. */
function latest(): string | null {
  if (!existsSync(FOLDERS)) return null;
  const folders = readdirSync(FOLDERS).map((name) => join(FOLDERS, name));
  return folders.find(isLatest) ?? null;
}

function isLatest(folder: string): boolean {
  try {
    const list = JSON.parse(readFileSync(join(folder, LIST), 'utf8')) as CompiledScripts;
    return SELF in list.files && isFresh(list);
  } catch {
    // Another run is making it, or was ended while it did.
    return false;
  }
}

async function compile(): Promise<string> {
  const { default: ts } = await import('typescript');
  mkdirSync(FOLDERS, { recursive: true });
  const making = mkdtempSync(join(FOLDERS, 'making-'));
  // With another list of scripts, too, all is made anew.
  const files: Record<string, readonly [number, number]> = { [SELF]: stampOf(SELF) };
  const compilerOptions = {
    ...{ target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
    inlineSourceMap: true,
  };
  const waiting = [...SCRIPTS];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (path in files) continue;
    const source = join(ROOT, path);
    files[path] = stampOf(path);
    const { outputText } = ts.transpileModule(readFileSync(source, 'utf8'), {
      fileName: source,
      compilerOptions,
    });
    const target = join(making, path.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, outputText);
    // The imports that are left: those of types are gone.
    for (const { fileName } of ts.preProcessFile(outputText).importedFiles)
      if (fileName.startsWith('.'))
        waiting.push(relative(ROOT, join(dirname(source), fileName)).replace(/\.js$/, '.ts'));
  }
  writeFileSync(join(making, LIST), JSON.stringify({ root: ROOT, files } satisfies CompiledScripts));
  for (const name of readdirSync(FOLDERS)) {
    const folder = join(FOLDERS, name);
    if (Date.now() - statSync(folder).mtimeMs > DAY_MS) rmSync(folder, { recursive: true, force: true });
  }
  const made = join(FOLDERS, `scripts-${Date.now()}-${process.pid}`);
  renameSync(making, made);
  return made;
}

function stampOf(path: string): readonly [number, number] {
  const { mtimeMs, size } = statSync(join(ROOT, path));
  return [mtimeMs, size];
}
