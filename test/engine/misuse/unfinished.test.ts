// A process that ends with unfinished requests is warned, and no other process is.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { useCompiled } from '../../misuse/process/compiled.js';
import { PATIENCE_MS } from '../../support/waiting.js';

const script = fileURLToPath(new URL('process/unfinished.mjs', import.meta.url));

const compiled = useCompiled();

/** The output of a process, and its end. */
async function live(
  life: string,
  flags: string[] = [],
): Promise<{ code: number; out: string; warnings: string[] }> {
  const child = spawn(process.execPath, [...flags, script, life], {
    env: compiled.env,
    timeout: PATIENCE_MS,
  });
  const [[code], out, err] = await Promise.all([
    once(child, 'exit') as Promise<[number]>,
    text(child.stdout),
    text(child.stderr),
  ]);
  // Node's own messages about a promise that nobody settles, and about traces.
  const said = err
    .replace(/Warning: Detected unsettled top-level await[\s\S]*?\n\n\n/, '')
    .replace(/\(Use `node --trace-warnings[^\n]*\n/g, '');
  const warnings = said.split(/^(?=\(node:)/m).filter((line) => line !== '');
  return { code, out, warnings };
}

const HEAD = /^\(node:\d+\) \[BLOCKSTEP_UNFINISHED\] BlockstepWarning: the process ends with /;

// Pinned by: `ExitWatch` (exit-watch.ts): `check` warns, `end` takes an engine out.
describe('a process that ends with requests unfinished is warned', () => {
  it('with how many, what the oldest waits for, and what to do', async () => {
    const { code, warnings } = await live('nobody runs it');
    expect(code).toBe(0);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(HEAD);
    expect(warnings[0]).toMatch(
      / 3 unfinished requests of an engine\. The oldest: request "a", 3 prompt tokens, 0 of at most 5 generated: waiting/,
    );
    expect(warnings[0]).toMatch(/nobody makes the next step: call run\(\) or step\(\)\n/);
    expect(warnings[0]).toMatch(/\nCall engine\.run\(\).*await engine\.shutdown\(\)/);
  });

  it.each<[string, RegExp, RegExp]>([
    [
      'somebody made steps',
      / 1 unfinished request of .*"a".*running.*nobody makes the next step/,
      /\nCall engine\.run\(\)/,
    ],
    ['it was stopped', / 1 unfinished request of .*"a".*nobody makes/, /\nCall engine\.run\(\)/],
    [
      'it is paused',
      / 1 unfinished request of .*"a".*everything is paused/,
      /\nCall engine\.resume\(\), .*await engine\.shutdown\(\)/,
    ],
    ['the event comes more than once', / 1 unfinished request of /, /engine\.run\(\)/],
    ['in a worker', / 3 unfinished requests of .*"a"/, /engine\.run\(\)/],
  ])('once: %s', async (life, said, advice) => {
    const { code, warnings } = await live(life);
    expect([code, warnings.length]).toEqual([0, 1]);
    expect(warnings[0]).toMatch(HEAD);
    expect(warnings[0]).toMatch(said);
    expect(warnings[0]).toMatch(advice);
  });

  it('also where the program waits for a result that never comes', async () => {
    const { code, warnings } = await live('somebody awaits a result');
    expect([code, warnings.length]).toEqual([13, 1]);
    expect(warnings[0]).toMatch(HEAD);
  });

  it('once for each engine', async () => {
    const { warnings } = await live('two engines');
    expect(warnings.map((line) => line.match(/request "(\w)"/)?.[1])).toEqual(['a', 'b']);
  });

  it('not if it does not want warnings', async () => {
    expect((await live('nobody runs it', ['--no-warnings'])).warnings).toEqual([]);
  });
});

describe('a process is not warned', () => {
  it.each<[string, unknown]>([
    ['shut down', 'length'],
    ['disposed', [1, 0]],
    ['all done', 'length'],
    ['aborted', 1],
    ['a listener of the program ends it', 5],
    ['a listener of the program runs it', 5],
  ])('of an engine: %s', async (life, printed) => {
    const { code, out, warnings } = await live(life);
    expect([code, JSON.parse(out), warnings]).toEqual([0, printed, []]);
  });

  it('of engines that were collected', async () => {
    const { out, warnings } = await live('collected', ['--expose-gc']);
    expect([JSON.parse(out), warnings]).toEqual([[1, 0], []]);
  });
});
