import type { Router } from 'zeromq';
import type { ReplayBuffer } from './replay-buffer.js';
import { seqBytes } from './seq-bytes.js';

const EMPTY = Buffer.alloc(0);
/** Stands for the number of a batch behind the last one of a replay. */
const END = Buffer.alloc(8, 0xff);

/** What replays are made of. */
export interface ReplayParts {
  readonly buffer: ReplayBuffer;
  /** The topic, which each reply names (vLLM #45177); null: replies as they were before. */
  readonly topic: Buffer | null;
  readonly counts: { asked: number; failed: number };
}

/**
 * Answers subscribers that have missed batches, until the socket is closed. A request has the frames identity, empty, and the number of
 * the first batch that is wanted; a reply is one message for each batch, and one that ends it. Requests that make no sense are
 * skipped. A subscriber must be a DEALER: a REQ would get the first reply alone.
 */
export async function serveReplays(router: Router, { buffer, topic, counts }: ReplayParts): Promise<void> {
  const head = topic === null ? [EMPTY] : [EMPTY, topic];
  const end = topic === null ? [EMPTY, END, EMPTY] : [EMPTY, EMPTY, END, EMPTY];
  try {
    for await (const frames of router) {
      if (frames.length !== 3 || frames[2].length !== 8) continue;
      const [identity, , start] = frames;
      counts.asked++;
      const from = start.readBigUInt64BE();
      try {
        if (from <= BigInt(Number.MAX_SAFE_INTEGER)) {
          for (const { seq, payload } of buffer.from(Number(from)))
            await router.send([identity, ...head, seqBytes(seq), payload]);
        }
        await router.send([identity, ...end]);
      } catch {
        // It is gone, or does not read.
        counts.failed++;
      }
    }
  } catch {
    // The socket was closed.
  }
}
