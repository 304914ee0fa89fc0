// A process lives while a request of a running engine can make progress, or its deadline runs, and
// not longer; `process/` has its program.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { PATIENCE_MS } from '../../support/waiting.js';

const PROGRAM = scriptArguments(import.meta.url, 'process/alive');

/**
 * The output of the program. A process that ends in the middle of a wait has exit code 13, and
 * rejects.
 */
async function live(life: string): Promise<{ ends: Record<string, unknown>; stderr: string }> {
  const args = [...PROGRAM, life];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { timeout: PATIENCE_MS });
  return { ends: JSON.parse(stdout) as Record<string, unknown>, stderr };
}

describe('an engine that runs', () => {
  it('keeps the process alive while a request can get on, or a deadline of one runs', async () => {
    const { ends, stderr } = await live('awaits');
    const failed = (why: string) => expect.stringContaining(`ERR_BLOCKSTEP_REQUEST: request ${why}`);
    expect(ends).toEqual({
      'a step': 'length',
      'a step without a limit': 'length',
      'a step beside blocks that nobody waits for': 'length',
      executorTimeoutMs: expect.stringContaining('ERR_BLOCKSTEP_EXECUTOR_HUNG'),
      admission: 'length',
      'admission of a batch': 'length',
      resumption: 'length, preempted true',
      'an adapter': 'length',
      'a grammar': 'length',
      'deadlines.grammar': failed('"request-1" failed: waited  for its grammar'),
      'a look-up': 'length',
      'a look-up that wakes': 'length',
      'deadlines.load of a look-up': failed('"r" failed: waited  for its connector'),
      'a load': 'length',
      'a load in a pause': 'length',
      'deadlines.load of a load': failed('"r" failed: waited  for its KV to be loaded'),
      'the next chunk': 'length',
      'deadlines.streamingInput': failed('"request-1" failed: waited  for the next chunk'),
      'a borrowing adapter': 'length',
      'deadlines.queue': failed('"request-1" failed: waited  to be scheduled'),
      timeoutMs: failed('"request-1" failed: took  and had not ended: its timeoutMs'),
      'the end of a pause': 'length',
    });
    expect(stderr).toBe('');
  });

  it('lets it go from what has no deadline and cannot get on, and from what no client waits for', async () => {
    const { ends, stderr } = await live('leaves');
    expect(ends).toEqual({
      'nothing to do': [],
      'an idle session': [],
      'a pause': [],
      'a pause of admissions': [],
      'blocks of a request that has ended': [],
      'a step of an aborted request': [],
    });
    // Whose end nobody can wait for is not warned of.
    expect(stderr.match(/The oldest: request "[^"]*"/g)).toEqual([
      'The oldest: request "session"',
      'The oldest: request "paused"',
      'The oldest: request "not admitted"',
    ]);
  });
});
