// Shares an arena, prints its descriptor, and lives until it is killed. A block's number on its
// input is answered with the first byte of that block.
import { createInterface } from 'node:readline';

const { BlockArena } = await import(new URL('transfer.js', process.env['BLOCKSTEP_INDEX']).href);
const arena = BlockArena.allocate({ numBlocks: 4, bytesPerBlock: 4096, shared: true });
arena.block(1).fill(7);
console.log(JSON.stringify(arena.descriptor));
for await (const line of createInterface({ input: process.stdin })) console.log(arena.block(Number(line))[0]);
