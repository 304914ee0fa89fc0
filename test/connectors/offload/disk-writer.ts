/**
 * A process that serves requests over a disk tier, over and over, until it is killed:
 * `disk-writer.ts FOLDER MODEL`. It prints a dot for each request that it has served.
 */

import { disk, PROMPTS, serveOver } from './disk-prompts.js';

const [path = '', model = ''] = process.argv.slice(2);
for (;;) {
  // A host tier that is small, so that what is found was written before.
  const bench = disk(path, { model, hostBlocks: 40 });
  for (const prompt of PROMPTS) {
    await serveOver(bench, prompt);
    process.stdout.write('.');
  }
  await bench.close();
}
