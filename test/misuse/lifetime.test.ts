// Schedulers in workers and processes, `dispose`, plans whose arrays were transferred away.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import type { Scheduler } from '../../src/index.js';
import { seeded } from '../support/core-bench.js';
import { TERMINATIONS } from '../support/threads.js';
import { detach } from './bad-values.js';
import { benchIn, codeOf, codeOfError, prompt, resultOf, snapshot } from './bench.js';
import { useCompiled } from './process/compiled.js';

const script = (name: string) => fileURLToPath(new URL(`process/${name}.mjs`, import.meta.url));
const run = promisify(execFile);

describe('other threads and processes', () => {
  const compiled = useCompiled();

  it('a worker with schedulers is terminated at a random moment, several times', async () => {
    const random = seeded(3);
    for (let round = 0; round < TERMINATIONS; round++) {
      const worker = new Worker(script('worker'), { env: compiled.env });
      const errors: unknown[] = [];
      worker.on('error', (error) => errors.push(error));
      // Every fourth is stopped while it is still loading the addon or making its scheduler.
      if (round % 4 !== 0) await once(worker, 'message');
      await new Promise((resolve) => setTimeout(resolve, random(round % 4 === 0 ? 60 : 12)));
      await worker.terminate();
      expect(errors).toEqual([]);
    }
    const bench = benchIn('running');
    bench.step();
    bench.scheduler.verify();
  });

  it('200 schedulers that nobody disposed are collected with their memory', async () => {
    const { stdout } = await run(process.execPath, ['--expose-gc', script('collect')], { env: compiled.env });
    const { made, alive, intact, rss } = JSON.parse(stdout) as Record<string, number | boolean>;
    expect([made, intact]).toEqual([200, true]);
    expect(alive).toBeLessThan(40);
    expect(rss).toBeLessThan(800e6);
  });
});

describe('dispose', () => {
  it('with plans in flight leaves their arrays readable and refuses the rest', () => {
    const bench = benchIn('running', { pipelineDepth: 3, numSpeculativeTokens: 0 });
    const plans = [bench.schedule(), bench.schedule()];
    const outputs = bench.scheduler.update(plans[0], resultOf(plans[0]));
    const read = () =>
      [...plans, outputs].map((holder) => Object.values(holder).filter(ArrayBuffer.isView).map(String));
    const before = read();
    const result = resultOf(plans[1]);
    bench.scheduler.dispose();
    expect(read()).toEqual(before);
    expect(plans[1].slots.byteLength).toBeGreaterThan(0);
    expect(plans.map((plan) => plan.numOutputTokens(0)).every(Number.isInteger)).toBe(true);
    plans[1].slots.fill(-1);
    plans[1].numBlocks.fill(2 ** 31 - 1);
    expect(codeOf(() => bench.scheduler.update(plans[1], result))).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => bench.scheduler.failStep(plans[1]))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('many times over, in every state, gives the memory back', () => {
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 60; i++) {
      const bench = benchIn('in flight', { numBlocks: 100_000 });
      bench.scheduler.dispose();
      bench.scheduler.dispose();
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(300e6); // all 60 would take 900 MB
  });

  it('works through using, also when the block throws', () => {
    let kept: { stats(): unknown } | undefined;
    const failing = () => {
      using scheduler = benchIn('running').scheduler;
      kept = scheduler;
      throw new Error('in the block');
    };
    expect(failing).toThrow('in the block');
    expect(codeOf(() => kept?.stats())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
});

describe('the arrays of a plan that the caller gives away', () => {
  it.each([false, true])('poison the scheduler and never crash it (with a log: %s)', (withLog) => {
    const bench = benchIn('running', withLog ? { log: { write() {} } } : {});
    detach(bench.plan.slots);
    expect(codeOf(() => bench.schedule())).toBe('ERR_BLOCKSTEP_DETACHED');
    expect(['ERR_BLOCKSTEP_DETACHED', 'ERR_BLOCKSTEP_INVARIANT']).toContain(codeOf(() => bench.schedule()));
    expect(() => bench.scheduler.inspect()).not.toThrow();
    bench.scheduler.dispose();
    expect(codeOf(() => bench.schedule())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('refuse whatever comes first, and dispose frees the memory', () => {
    for (const name of ['add', 'abort', 'update', 'stats'] as const) {
      const bench = benchIn('in flight', { log: { write() {} } });
      const { scheduler, plan } = bench;
      const result = resultOf(plan);
      detach(plan.slots);
      const calls = {
        add: () => scheduler.add({ id: 'n', prompt: prompt(3), maxTokens: 1 }),
        abort: () => scheduler.abort('a'),
        update: () => scheduler.update(plan, result),
        stats: () => scheduler.stats(),
      };
      for (let i = 0; i < 2; i++) {
        try {
          calls[name]();
        } catch (error) {
          expect((error as { code: string }).code).toMatch(/^ERR_BLOCKSTEP_(DETACHED|INVARIANT)$/);
        }
      }
      disposeOnce(scheduler);
    }
  });

  it('are missed by dispose itself at the latest, which frees the memory and says so once', () => {
    for (const withLog of [false, true]) {
      const { scheduler, plan } = benchIn('in flight', withLog ? { log: { write() {} } } : {});
      scheduler.core.push(3, scheduler.get('a')!.slot, 0); // something that the last flush has to hand over
      detach(plan.slots);
      expect(disposeOnce(scheduler)).toBe(withLog ? 'ERR_BLOCKSTEP_DETACHED' : undefined);
    }
  });

  /** Disposes twice; the code that the first time threw. */
  function disposeOnce(scheduler: Scheduler): string | undefined {
    let code: string | undefined;
    try {
      scheduler.dispose();
    } catch (error) {
      code = codeOfError(error);
      expect(code).toBe('ERR_BLOCKSTEP_DETACHED');
    }
    scheduler.dispose();
    expect(codeOf(() => scheduler.stats())).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => scheduler.core.native.digest())).toBe('ERR_BLOCKSTEP_DISPOSED');
    return code;
  }
});

describe('two schedulers in one process', () => {
  it('know nothing of each other', () => {
    const [one, other] = [benchIn('in flight'), benchIn('running')];
    const before = snapshot(one.scheduler);
    const foreign = other.add('theirs');
    for (let i = 0; i < 3; i++) other.add(`more ${i}`, 3);
    expect(one.scheduler.getByHandle(other.scheduler.get('more 2')!.handle)).toBeUndefined();
    expect(one.scheduler.abort(['theirs', other.scheduler.get('more 2')!.handle])).toEqual([]);
    expect(other.scheduler.getByHandle(foreign)?.id).toBe('theirs');
    const plan = other.schedule();
    expect(codeOf(() => one.scheduler.update(plan, resultOf(plan)))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
    other.scheduler.dispose();
    expect(snapshot(one.scheduler)).toEqual(before);
    one.scheduler.verify();
  });
});
