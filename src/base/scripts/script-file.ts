// Starts a thread or a process with a script of this package, compiled or from source.
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { compiledScript } from './compiled-scripts.js';

/**
 * Starts a thread with a script beside a file of this package. The script is the compiled file in
 * `dist`, or the source. `tsx` makes the source runnable, unless the tests have compiled it. The
 * thread keeps no process alive.
 * @param from `import.meta.url` of the file
 * @param name of the script, without an extension
 */
export function startThread(from: string, name: string, options: WorkerOptions): Worker {
  const script = scriptUrl(from, name);
  const worker = isSource(script)
    ? new Worker(
        `import(${quoted(tsx(from, 'esm/api/index.mjs'))}).then(({ register }) => { register(); return import(${quoted(script)}); });`,
        { ...options, eval: true },
      )
    : new Worker(script, options);
  worker.unref();
  return worker;
}

/**
 * Arguments for `node` that run a script beside a file of this package, in a process of its own.
 * @param from `import.meta.url` of the file
 * @param name of the script, without an extension
 */
export function scriptArguments(from: string, name: string): string[] {
  const script = scriptUrl(from, name);
  const path = fileURLToPath(script);
  return isSource(script) ? ['--import', tsx(from, 'loader.mjs').href, path] : [path];
}

/**
 * The URL of a script beside a file of this package. If the package runs from its sources, it is
 * the URL of the source.
 * @param from `import.meta.url` of the file
 * @param name of the script, without an extension
 */
export function scriptUrl(from: string, name: string): URL {
  const url = new URL(from);
  if (!isSource(url)) return new URL(`./${name}.js`, url);
  const script = new URL(`./${name}.ts`, url);
  return compiledScript(script) ?? script;
}

/** Whether the package runs from its sources, as its own tests do. */
function isSource({ pathname }: URL): boolean {
  return pathname.endsWith('.ts');
}

/**
 * A module of tsx. It is looked up beside its package.json, because `require` resolves the package
 * to other files.
 */
function tsx(from: string, file: string): URL {
  return new URL(`./dist/${file}`, pathToFileURL(createRequire(from).resolve('tsx/package.json')));
}

function quoted(url: URL): string {
  return JSON.stringify(url.href);
}
