// A folder for the files of one suite, and one for a test.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, onTestFinished } from 'vitest';

/** Gives the suite a folder of its own, removed at its end. Returns what writes a file there and gives its path. */
export function useTempFiles(): (name: string, content: string | Buffer) => string {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'blockstep-test-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return (name, content) => {
    const path = join(folder, name);
    writeFileSync(path, content);
    return path;
  };
}

/** Makes new empty folders where a suite's `useTempFiles` writes, and gives their paths. */
export function useTempFolders(write: ReturnType<typeof useTempFiles>): () => string {
  let folders = 0;
  return () => {
    const path = join(dirname(write('x', '')), `folder-${folders++}`);
    mkdirSync(path);
    return path;
  };
}

/** A folder that is removed with the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }));
  return folder;
}
