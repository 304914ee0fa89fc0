// A worker thread that attaches to an arena, and answers with the first byte of each block that it is asked for.
import { parentPort, workerData } from 'node:worker_threads';

const { BlockArena } = await import(new URL('transfer.js', process.env['BLOCKSTEP_INDEX']).href);
const arena = BlockArena.attach(workerData);
parentPort.on('message', (block) => {
  const bytes = arena.block(block);
  bytes[1] = bytes[0] + 1;
  parentPort.postMessage(bytes[0]);
});
parentPort.postMessage('attached');
