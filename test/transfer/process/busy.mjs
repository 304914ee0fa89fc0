// Lanes with seconds of copying in front of them: for processes and workers that end meanwhile.
const { BlockArena, CompletionQueue, HostLane } = await import(
  new URL('transfer.js', process.env.BLOCKSTEP_INDEX).href
);

const BLOCKS = 16;
const all = Int32Array.from({ length: BLOCKS }, (_, i) => i);

/** A lane with `jobs` jobs of 16 MiB, and one that waits for a step. */
export function busyLane(jobs, options = { threads: 2 }) {
  const shape = { numBlocks: BLOCKS, bytesPerBlock: 2 ** 20 };
  const queue = new CompletionQueue();
  const [source, target] = [BlockArena.allocate(shape), BlockArena.allocate(shape)];
  new Uint8Array(source.buffer).fill(7);
  const lane = new HostLane(queue, source, target, options);
  lane.submit(all, all, 1000);
  for (let i = 0; i < jobs; i++) lane.submit(all, all);
  return { queue, source, target, lane, all };
}
