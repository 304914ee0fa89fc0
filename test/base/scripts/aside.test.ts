// A separate process: answers, errors, and its limits of time, size and depth.
import { describe, expect, it, onTestFinished } from 'vitest';
import { Aside, type AsideLimits } from '../../../src/base/scripts/aside.js';

const LONG: AsideLimits = { timeMs: 60_000 };

function aside() {
  const process = new Aside();
  onTestFinished(() => process.close());
  const run = (name: string, input: unknown = null, limits = LONG, signal: AbortSignal | null = null) =>
    process.run({ from: import.meta.url.replace(/ts$/, 'js'), module: 'tasks', name }, input, limits, signal);
  return { process, run };
}

describe('a process aside', () => {
  it('does its tasks in their order, and keeps what its modules keep', async () => {
    const { run } = aside();
    const answers = await Promise.all([1, 'two', { three: [3] }].map((input) => run('echo', input)));
    expect(answers).toEqual([
      { input: 1, calls: 1 },
      { input: 'two', calls: 2 },
      { input: { three: [3] }, calls: 3 },
    ]);
    expect(await run('numbers')).toEqual(Int32Array.of(1, 2, 3));
  });

  it('hands on what a task throws, with the codes of blockstep’s own errors', async () => {
    const { run } = aside();
    await expect(run('fails', { message: 'no such name' })).rejects.toMatchObject({
      name: 'TypeError',
      message: 'no such name',
    });
    const own = { message: 'text must be a string', code: 'ERR_BLOCKSTEP_BAD_ARG' };
    await expect(run('fails', own)).rejects.toMatchObject({ name: 'BlockstepError', ...own });
    await expect(run('echo', () => {})).rejects.toThrow(/could not be cloned/);
    await expect(run('nothing')).rejects.toThrow(/not a function/);
    expect(await run('echo', 4)).toEqual({ input: 4, calls: 1 });
  });

  it('breaks off what takes too long, too much memory, or says too much, and goes on', async () => {
    const { run } = aside();
    const broken = (limit: string, message: RegExp) =>
      expect.objectContaining({ name: 'AsideLimitError', limit, message: expect.stringMatching(message) });
    const long = run('spins', null, { timeMs: 50 });
    const behind = run('echo', 'behind');
    await expect(long).rejects.toEqual(broken('time', /^it took more than 50 ms$/));
    // A new process knows nothing of the one before.
    expect(await behind).toEqual({ input: 'behind', calls: 1 });
    await expect(run('hoards')).rejects.toEqual(broken('memory', /^it ended its process \(.*512 MiB/));
    await expect(run('dives')).rejects.toThrow(/call stack/);
    expect(await run('repeats', 10, { ...LONG, maxOutput: 10 })).toBe('aaaaaaaaaa');
    await expect(run('repeats', 11, { ...LONG, maxOutput: 10 })).rejects.toEqual(
      broken('output', /11 characters, and at most 10/),
    );
  });

  it('forgets who leaves while waiting, and all when it is closed', async () => {
    const { process, run } = aside();
    const leaving = new AbortController();
    const first = run('spins', null, LONG);
    const left = run('echo', 1, LONG, leaving.signal);
    const stays = run('echo', 2);
    leaving.abort(new Error('has left'));
    await expect(left).rejects.toThrow('has left');
    process.close();
    await expect(first).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    await expect(stays).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    expect(await run('echo', 3)).toEqual({ input: 3, calls: 1 });
  });
});
