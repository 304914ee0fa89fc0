// No connector keeps a process alive behind the end of an engine.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { thinned } from '../support/share.js';
import { useTempFiles, useTempFolders } from '../support/temp-file.js';

const PROGRAM = scriptArguments(import.meta.url, 'support/ends');

describe('nothing keeps a process alive behind the end of an engine', () => {
  const folder = useTempFolders(useTempFiles());

  it.each(
    ['offload', 'store', 'lease', 'multi'].flatMap((kind, i) =>
      thinned(['shutdown', 'dispose'], 2, i).map((ending) => [kind, ending]),
    ),
  )('%s, %s', async (kind, ending) => {
    const args = [...PROGRAM, kind, folder(), ending];
    // A process that is kept alive prints the cause, and rejects with its exit code.
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(stdout).toBe('over\n');
  });
});
