// Engines over one folder that are killed in the middle of their work.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { share } from '../../support/share.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { disk, PROMPTS, serveOver } from './disk-prompts.js';
import type { OffloadBench } from './support.js';

/**
 * Engines over a disk tier that are killed in the middle of their work. Each block that they leave
 * there is complete, or absent.
 */

const WRITER = scriptArguments(import.meta.url, 'disk-writer');
const KILLS = share(1, 2, 4);
let last: OffloadBench | null = null;

afterEach(async () => {
  await last?.close();
  last = null;
});

/** Makes a process serve this number of prompts and some more, and kills it. */
async function killAfter(path: string, model: string, numServed: number): Promise<void> {
  const child = spawn(process.execPath, [...WRITER, path, model]);
  const ended = once(child, 'close');
  let served = 0;
  let errors = '';
  child.stdout.on('data', (dots: Buffer) => {
    served += dots.length;
    if (served >= numServed) child.kill('SIGKILL');
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const [, signal] = await ended;
  expect([signal, errors]).toEqual(['SIGKILL', '']);
}

it('an engine that is killed leaves nothing on disk that is wrong', { timeout: 600_000 }, async () => {
  const path = `${temporaryFolder()}/disk`;
  for (let i = 0; i < KILLS; i++) {
    // The first ones are killed before they have all prompts on disk, the later ones while they read.
    await killAfter(path, 'm', 1 + 7 * i);
    expect(existsSync(path)).toBe(true);
    last = disk(path, { model: 'm', hostBlocks: 200 });
    for (const prompt of PROMPTS) await serveOver(last, prompt);
    const { readBlocks = 0 } = last.connector.stats().disk ?? {};
    if (i > 0) expect(readBlocks).toBeGreaterThan(0);
    await last.close();
    last = null;
  }
});
