/**
 * A process that opens a file of LMDB five times, and says how that went: `opener.ts FILE MAX_BYTES [WAY]`. The way `checked` is for a
 * file that was checked already, `starved` is the same with 0, 1, 2, … file descriptors left until it is open.
 */

import { closeSync, openSync } from 'node:fs';
import { openCheckedFile } from '../../../../src/connectors/store/stores/embedded-file.js';
import { EmbeddedStore } from '../../../../src/connectors/store/stores/embedded-store.js';

const [path, maxBytes, way] = process.argv.slice(2);
const said = new Set<string>();

async function open(): Promise<boolean> {
  const opening =
    way === undefined
      ? EmbeddedStore.open({ kind: 'embedded', path, maxBytes: Number(maxBytes) })
      : openCheckedFile(path, Number(maxBytes));
  const result = await opening.then(() => 'open', String);
  said.add(result);
  return result === 'open';
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
  // So that LMDB is loaded.
  await openCheckedFile('/dev/null/none', 2 ** 20).catch(() => {});
  const taken = takeAll();
  while (!(await open())) closeSync(taken.pop() as number);
  for (const descriptor of taken) closeSync(descriptor);
} else for (let i = 0; i < 5; i++) await open();
// What was freed twice is often noticed later.
const other = { kind: 'embedded', path: `${path}.other`, maxBytes: 2 ** 20 } as const;
await EmbeddedStore.open(other).then(
  (store) => store.close(),
  () => {},
);
console.log([...said].join('\n'));
