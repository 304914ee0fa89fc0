// Cores in worker threads, two copies of the addon, collected cores, processes that end with cores
// in use.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, it } from 'vitest';
import { loadAddonFrom } from '../../src/core/loader.js';
import { addonInUse } from '../support/addon.js';
import { BenchCore, codeOf, range } from '../support/core-bench.js';
import { PATIENCE_MS } from '../support/waiting.js';

const script = (name: string) => fileURLToPath(new URL(`process/${name}.cjs`, import.meta.url));
const path = addonInUse();

function runScript(name: string, args: string[] = [], flags: string[] = []) {
  return spawnSync(process.execPath, [...flags, script(name), path, ...args], {
    encoding: 'utf8',
    timeout: PATIENCE_MS,
  });
}

describe('lifetime', () => {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('two workers with cores of their own are terminated in the middle of a call, 20 times', async () => {
    for (let round = 0; round < 20; round++) {
      const workers = [0, 1].map(() => new Worker(script('worker'), { workerData: { path } }));
      await Promise.all(workers.map((worker) => once(worker, 'message')));
      const codes = await Promise.all(workers.map((worker) => worker.terminate()));
      expect(codes).toEqual([1, 1]);
    }
    using core = new BenchCore(loadAddonFrom(path));
    core.start(range(8));
    core.native.verify();
  });

  it('two copies of the addon in one process do not know each other', () => {
    const copy = join(folder, 'copy.node');
    copyFileSync(path, copy);
    using a = new BenchCore(loadAddonFrom(path));
    using b = new BenchCore(loadAddonFrom(copy));
    a.start(range(8));
    expect([a.freeBlocks, b.freeBlocks]).toEqual([30, 32]);
    b.start(range(8));
    expect(b.native.digest()).toBe(a.native.digest());
    expect(codeOf(() => Reflect.apply(a.native.digest, b.native, []))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
    expect(codeOf(() => Reflect.apply(b.native.digest, a.native, []))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
    expect(codeOf(() => Reflect.apply(a.native.dispose, b.native, []))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
  });

  it('cores that nobody holds are collected with their memory', () => {
    const { stdout, stderr, status } = runScript('collect', [], ['--expose-gc']);
    expect(stderr).toBe('');
    expect(status).toBe(0);
    const { made, alive, rss } = JSON.parse(stdout) as { made: number; alive: number; rss: number };
    expect(made).toBe(200);
    expect(alive).toBeLessThan(20);
    expect(rss).toBeLessThan(800e6); // all 200 would take 2.5 GB
  });

  it.each([
    ['end', 0],
    ['exit', 7],
    ['throw', 1],
    ['dispose-at-exit', 0],
  ])('a process with undisposed cores ends cleanly: %s', (way, code) => {
    const { status, signal, stderr } = runScript('exit', [way]);
    expect([status, signal]).toEqual([code, null]);
    if (code !== 1) expect(stderr).toBe('');
  });

  it('threads and leak scripts, which the sanitizers run, do their work', () => {
    for (const name of ['threads', 'leak']) {
      const { status, stdout, stderr } = runScript(name);
      expect([status, stdout, stderr]).toEqual([0, 'done\n', '']);
    }
  });
});
