// A process lives while a client waits for its pipeline, and not longer.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { PATIENCE_MS } from '../../support/waiting.js';

const PROGRAM = scriptArguments(import.meta.url, 'alive');

it('a pipeline keeps the process alive while a client waits for it, a server while it serves', async () => {
  // A process that ends in the middle of a wait has exit code 13, and rejects.
  const { stdout, stderr } = await promisify(execFile)(process.execPath, PROGRAM, { timeout: PATIENCE_MS });
  expect(JSON.parse(stdout)).toEqual({
    'a stage elsewhere': expect.stringMatching(/late$/),
    timeoutMs: expect.stringMatching(/more than its timeoutMs$/),
    stallMs: expect.stringMatching(/waits for far to take chunk 1, : stallMs of stage near/),
    'a stage that nobody serves, after a short answer': expect.stringMatching(
      /in stage far: it has not answered for/,
    ),
    'a server of this process, for longer than it waits for a silent client': 'length',
    'a chunk of a session': 'length',
    'what a request waits for': 'does not answer',
    'a request of a server': expect.stringMatching(/waits for chunk 1 of before, : stallMs of stage near/),
    'a pipeline that is left': 'length',
  });
  expect(stderr).toBe('');
});
