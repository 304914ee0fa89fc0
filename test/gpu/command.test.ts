// Programs run to their end or their limit, and leave nothing running.
import { describe, expect, it } from 'vitest';
import { runCommand, tail } from '../../bench/gpu/host/command.js';
import { PATIENCE_MS } from '../support/waiting.js';

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe('a program', () => {
  it('is heard to its end', async () => {
    const ended = await runCommand('bash', ['-c', 'echo out; echo $WORD >&2; exit 3'], {
      limit: 20,
      env: { WORD: 'err' },
    });
    expect(ended).toMatchObject({ status: 3, timedOut: false, stdout: 'out\n', stderr: 'err\n' });
  });

  it('is killed at its limit, with everything that it started', async () => {
    const ended = await runCommand('bash', ['-c', 'sleep 60 & echo $!; wait'], { limit: 0.3 });
    expect(ended).toMatchObject({ status: null, timedOut: true });
    expect(ended.seconds).toBeLessThan(20);
    const pid = Number(ended.stdout);
    expect(pid).toBeGreaterThan(1);
    await expect.poll(() => isAlive(pid), { timeout: PATIENCE_MS }).toBe(false);
  });

  it('that does not start says why', async () => {
    const ended = await runCommand('/no/such/program', [], { limit: 5 });
    expect(ended.status).toBeNull();
    expect(ended.stderr).toContain('ENOENT');
  });

  it('is quoted by its last lines', () => {
    expect(tail('a\nb\nc\n', 2)).toBe('b\nc');
    expect(tail('x'.repeat(9000)).length).toBe(4000);
  });
});
