/**
 * A process that opens a file of LMDB more than once, as a store does, and says how that went: `opener.ts FILE MAX_BYTES [starved]`. With
 * `starved` it has 0, 1, 2, … file descriptors left, until the file is open.
 */

import { closeSync, openSync } from 'node:fs';
import { ProcessStore } from '../../../../src/connectors/store/embedded/process-store.js';
import { share } from '../../../support/share.js';

const TIMES = share(1, 2, 5);
const [path, maxBytes, way] = process.argv.slice(2);
const said = new Set<string>();

async function open(): Promise<boolean> {
  try {
    const store = await ProcessStore.open({ kind: 'embedded', path, maxBytes: Number(maxBytes) }, () => {});
    await store.close();
    said.add('open');
    return true;
  } catch (error) {
    said.add(String(error));
    return false;
  }
}

/** Takes every descriptor that this process may still have. */
function takeAll(): number[] {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    return taken;
  }
}

if (way === 'starved') {
  const taken = takeAll();
  while (!(await open())) closeSync(taken.pop() as number);
} else for (let i = 0; i < TIMES; i++) await open();
console.log([...said].join('\n'));
