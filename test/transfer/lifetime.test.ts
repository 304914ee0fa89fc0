// Threads of lanes: terminated workers, lanes without references, two copies of the addon.
import { execFile, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { loadAddonFrom } from '../../src/core/loader.js';
import { BlockArena, CompletionQueue, HostLane } from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { useCompiled } from '../misuse/process/compiled.js';
import { addonInUse } from '../support/addon.js';
import { terminateWorkers } from '../support/threads.js';
import { PATIENCE_MS } from '../support/waiting.js';
import { drainAll, ids } from './support.js';

const script = (name: string) => fileURLToPath(new URL(`process/${name}.mjs`, import.meta.url));
const run = promisify(execFile);

describe('threads of lanes', () => {
  const compiled = useCompiled();
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-'));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('survive that their worker is terminated at a random moment, several times', async () => {
    await terminateWorkers(script('worker'), compiled.env, { seed: 3, mostMs: 30 });
  });

  it.each([
    ['end', 0],
    ['exit', 7],
    ['throw', 1],
    ['disposed', 0],
    ['exits in a drain', 7],
    ['disposed at exit', 0],
    ['worker', 0],
  ])('keep no process alive, and let it end with transfers in flight: %s', (life, code) => {
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, [script('exit'), life], {
      encoding: 'utf8',
      env: compiled.env,
      timeout: PATIENCE_MS,
    });
    expect([status, signal, stdout]).toEqual([code, null, 'true']);
    if (code !== 1) expect(stderr).toBe('');
  });

  it('go with lanes that nobody holds, and arenas with their memory', async () => {
    const { stdout } = await run(process.execPath, ['--expose-gc', script('collect')], {
      env: compiled.env,
      timeout: PATIENCE_MS,
    });
    const left = JSON.parse(stdout) as { alive: number; threads: number; kept: boolean; rss: number };
    expect(left.alive).toBeLessThan(20);
    expect(left.threads).toBeLessThan(20);
    expect(left.kept).toBe(true);
    expect(left.rss).toBeLessThan(600e6); // all of them would take 1.9 GB
  });

  it('of two copies of the addon know nothing of each other', () => {
    const path = addonInUse();
    const copy = join(folder, 'copy.node');
    copyFileSync(path, copy);
    const addons = [loadAddonFrom(path), loadAddonFrom(copy)];
    const parts = addons.map((addon) => {
      const shape = { numBlocks: 4, bytesPerBlock: 8 };
      const queue = new CompletionQueue({}, addon);
      const [source, target] = [BlockArena.allocate(shape, addon), BlockArena.allocate(shape, addon)];
      return { addon, queue, source, target, lane: new HostLane(queue, source, target, {}, addon) };
    });
    const [one, other] = parts;
    for (const wrong of [
      () => new HostLane(other.queue, one.source, one.target, {}, one.addon),
      () => new HostLane(one.queue, other.source, one.target, {}, one.addon),
      () => new HostLane(one.queue, one.source, one.target, {}, other.addon),
    ]) {
      expect(codeOf(wrong)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(codeOf(() => Reflect.apply(one.queue.native.begin, other.queue.native, []))).toBe(
      'ERR_BLOCKSTEP_BAD_RECEIVER',
    );
    for (const { lane } of parts) lane.flush(ids(lane.submit(ids(1), ids(2))));
    for (const { queue, lane } of parts) {
      expect(drainAll(queue)).toEqual({ 1: 'ok' });
      lane.dispose();
    }
  });
});
