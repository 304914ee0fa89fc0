// Workers terminated at work, engines without references, processes that end, two engines in one
// process.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { useCompiled } from '../../misuse/process/compiled.js';
import { EngineBench, leftovers, prompt } from '../../support/engine-bench.js';
import { terminateWorkers } from '../../support/threads.js';
import { PATIENCE_MS } from '../../support/waiting.js';

const script = (name: string) => fileURLToPath(new URL(`process/${name}.mjs`, import.meta.url));
const run = promisify(execFile);

describe('other threads and processes', () => {
  const compiled = useCompiled();

  it('a worker with engines at work is terminated at a random moment, several times', async () => {
    await terminateWorkers(script('worker'), compiled.env, { seed: 11, mostMs: 40 });
  });

  it.each([
    ['idle', [0, 1, 2, 3, 4]],
    ['idle, answered later', [0, 1, 2, 3, 4]],
    ['abandoned', 5],
    ['disposed', 'ERR_BLOCKSTEP_DISPOSED'],
    ['shut down', ['abort', true]],
    ['shut down while stalled', true],
    ['dispose fails', ['disposed', 'ERR_BLOCKSTEP_EXECUTOR', 'ERR_BLOCKSTEP_EXECUTOR_HUNG', 'disposed']],
    ['stalled', 'length'],
    ['broken', 'ERR_BLOCKSTEP_EXECUTOR_HUNG'],
    ['exits at work', 'exiting'],
    ['no handles or listeners are left', [[], 0]],
  ])('a process with an engine ends by itself: %s', async (life, expected) => {
    const { stdout, stderr } = await run(process.execPath, [script('exit'), life], {
      env: compiled.env,
      timeout: PATIENCE_MS,
    });
    expect(JSON.parse(stdout)).toEqual(expected);
    expect(stderr).toBe('');
  });

  it('what nobody holds is collected', async () => {
    const { stdout } = await run(process.execPath, ['--expose-gc', script('collect')], {
      env: compiled.env,
      timeout: PATIENCE_MS,
    });
    const left = JSON.parse(stdout) as { engines: number; streams: number; listeners: number };
    expect(left.engines).toBeLessThan(10);
    expect(left.streams).toBeLessThan(10);
    expect(left.listeners).toBe(0);
  });
});

describe('two engines in one process', () => {
  it('know nothing of each other', async () => {
    const [one, other] = [new EngineBench(), new EngineBench({ pipelineDepth: 2 }, true)];
    const mine = one.submit({ id: 'a', maxTokens: 4 });
    const theirs = other.submit({ id: 'a', prompt: prompt(9, 1), maxTokens: 4 });
    other.engine.step();
    one.engine.step();
    one.engine.abort(theirs.handle + 2 ** 21);
    one.engine.abort('a');
    expect([mine.ended, theirs.ended]).toEqual([true, false]);
    one.engine.dispose();
    await other.finish();
    expect([...(await theirs.result()).tokens]).toEqual([900, 1000, 1100, 1200]);
    expect(leftovers(other.engine)).toEqual([]);
  });

  it('may drive each other from inside their executors', async () => {
    const inner = new EngineBench();
    const outer = new EngineBench();
    const results: Promise<unknown>[] = [];
    outer.executor.onExecute = () => {
      results.push(inner.submit({ maxTokens: 2 }).result());
      inner.steps();
    };
    const stream = outer.submit({ maxTokens: 3 });
    outer.steps();
    expect((await stream.result()).tokens).toHaveLength(3);
    expect(await Promise.all(results)).toHaveLength(3);
    for (const { engine } of [inner, outer]) expect(leftovers(engine)).toEqual([]);
  });
});
