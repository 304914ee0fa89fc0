/** A process that stores values in a file of slots, over and over, until it is killed: `writer.ts FILE MAX_BYTES NAME`. */

import { SlotFile } from '../../../../src/connectors/store/slots/slot-file.js';
import { SlotStore } from '../../../../src/connectors/store/slots/slot-store.js';
import { Outcome } from '../../../../src/connectors/store/stores/block-store.js';
import { seal } from '../../../../src/connectors/store/stores/sealed-value.js';

const [path, maxBytes, name] = process.argv.slice(2);
const store = new SlotStore(SlotFile.open(path).fd, Number(maxBytes));
for (let round = 0; ; round++) {
  const keys = Array.from({ length: 8 }, (_, i) => `${name}${(8 * round + i) % 100}`);
  const values = keys.map((key) => seal(key, Buffer.alloc(10_000, key)));
  const outcomes = await store.put(keys, values);
  if (outcomes.some((outcome) => outcome !== Outcome.done)) throw new Error(`outcomes ${outcomes.join()}`);
  if (round % 5 === 4) await store.remove(keys.slice(0, 2));
  process.stdout.write('.');
}
