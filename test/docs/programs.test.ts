// Runs the whole programs of some pages, each in a process that must end by itself.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import ts from 'typescript';
import { beforeAll, describe, expect, it } from 'vitest';
import { addonInUse } from '../support/addon.js';
import { facesFolder } from '../support/compiled/compile-scripts.js';
import { entryPoints } from '../support/entry-points.js';
import { RedisServer, whyNoRedis } from '../support/redis/redis-server.js';
import { isQuick } from '../support/share.js';
import { useTempFiles, useTempFolders } from '../support/temp-file.js';
import { PATIENCE_MS } from '../support/waiting.js';
import { read } from './declarations.js';

/** The folder in which the programs of the pages keep their values. */
const FILES = '/tmp/blockstep-kv';

/** The first whole program below a heading of a page. */
function program(page: string, heading: string): string {
  const text = read(page);
  const [, found] =
    /^```ts\n([\s\S]*?)^```/m.exec(text.slice(Math.max(0, text.indexOf(`\n${heading}\n`)))) ?? [];
  if (found === undefined) throw new Error(`${page} has no program below ${heading}`);
  return found;
}

const ENTRIES = entryPoints(read('package.json'));

/** A program with something else in it. */
function edited(text: string, from: string, to: string): string {
  expect(text.split(from)).toHaveLength(2);
  return text.replace(from, to);
}

// Only the program keeps its process alive: a program that ends in the middle of a wait has exit
// code 13.
describe('the programs of the pages run, and end by themselves', () => {
  const folder = useTempFolders(useTempFiles());
  let compiled: string;
  beforeAll(async () => {
    compiled = await facesFolder();
  });

  /**
   * Runs programs in turn, each in a process. @returns their output. @throws if one has another
   * exit code than 0
   */
  async function run(...texts: string[]): Promise<string[]> {
    const place = folder();
    const printed: string[] = [];
    for (const text of texts) {
      const file = join(place, 'program.mjs');
      writeFileSync(file, runnable(text.replaceAll(FILES, place)));
      const env = { ...process.env, BLOCKSTEP_ADDON: addonInUse() };
      const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], {
        env,
        timeout: PATIENCE_MS,
      });
      expect(stderr).toBe('');
      printed.push(stdout.trim());
    }
    return printed;
  }

  /** A program in JavaScript that imports the compiled package. */
  function runnable(text: string): string {
    const { outputText } = ts.transpileModule(text, {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
    });
    return outputText.replace(
      / from '(blockstep(?:\/[^']*)?)'/g,
      (_, name: string) =>
        ` from '${pathToFileURL(join(compiled, ENTRIES.get(name)!.replace(/\.ts$/, '.js'))).href}'`,
    );
  }

  const connectors = 'docs/connectors.md';
  /**
   * A store has to be opened first, for which the requests wait here: a request that does not wait
   * finds nothing.
   */
  const patient = (text: string) => {
    const connector = '({ store, format, lookupBudgetMs: 60_000, timeoutMs: 60_000 })';
    const worker = '({ memory, store, timeoutMs: 60_000 })';
    return edited(edited(text, '({ store, format })', connector), '({ memory, store })', worker);
  };
  const store = patient(program(connectors, '## StoreConnector'));
  const path = `{ path: '${FILES}/blocks.slots' }`;

  it('offload, without and with a disk, for which a request waits', async () => {
    const text = program(connectors, '## Offload');
    const disk = `{ disk: { path: '${FILES}/disk', model: 'm', maxBytes: 2 ** 24 }, memory`;
    expect(await run(text, edited(text, '{ memory', disk))).toEqual(['4', '4']);
  });

  it('a store in a file', async () => {
    expect(await run(store, store)).toEqual(['0', '48']);
  });

  // The same program as in a file.
  it.skipIf(whyNoRedis !== null || isQuick)('a store in Redis', async () => {
    const { url } = await RedisServer.start();
    const text = edited(store, path, `{ url: '${url}', commandTimeoutMs: 60_000 }`);
    expect(await run(text, text)).toEqual(['0', '48']);
  });

  it('a store of your own', async () => {
    const own = program(connectors, '### A store of your own');
    const text = edited(store, path, '{ open: () => Promise.resolve(new MemoryStore(2 ** 30)) }');
    expect(await run(own + text)).toEqual(['0']);
  });

  it('prefill and decode', async () => {
    expect(await run(program(connectors, '## Prefill and decode as two engines'))).toEqual(['99 20']);
  });

  it('several connectors', async () => {
    const text = patient(program(connectors, '## Several at once'));
    expect(await run(text, text)).toEqual(['0', '48']);
  });

  it('pipelines', async () => {
    const [text] = await run(program('docs/pipelines.md', ''));
    expect(text.split('\n').at(-1)).toMatch(/^\d+$/);
    await run(program('docs/pipelines.md', '## Stages in other processes'));
  });

  it('an adapter that borrows requests', async () => {
    expect(await run(program('docs/borrowing.md', '## A whole example'))).toEqual(['4']);
  });

  it('KV cache events', async () => {
    expect(await run(program('docs/kv-events.md', '## From a program'))).toHaveLength(1);
  });
});
