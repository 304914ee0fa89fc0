import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { useTempFiles, useTempFolders } from '../support/temp-file.js';

const PROGRAM = fileURLToPath(new URL('support/ends.ts', import.meta.url));

describe('nothing keeps a process alive behind the end of an engine', () => {
  const folder = useTempFolders(useTempFiles());

  it.each(
    ['offload', 'store', 'lease', 'multi'].flatMap((kind) => [
      [kind, 'shutdown'],
      [kind, 'dispose'],
    ]),
  )('%s, %s', async (kind, ending) => {
    const args = ['--import', 'tsx', PROGRAM, kind, folder(), ending];
    // A process that is kept alive says by what, and rejects with its exit code.
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(stdout).toBe('over\n');
  });
});
