import type { Router } from 'zeromq';
import type { ReplayBuffer } from './replay-buffer.js';
import { seqBytes } from './seq-bytes.js';

const EMPTY = Buffer.alloc(0);
/** The number that marks the end of a replay. */
const END = Buffer.alloc(8, 0xff);

/** The input of replays. */
export interface ReplayParts {
  readonly buffer: ReplayBuffer;
  /** The topic in each reply (vLLM #45177); null: the older replies without it. */
  readonly topic: Buffer | null;
  readonly counts: { asked: number; failed: number };
}

/**
 * Answers subscribers that missed batches, until the socket is closed. A request has the frames
 * identity, empty, and the number of the first wanted batch. The reply is one message for each
 * batch, and a final message. Malformed requests are skipped. A subscriber must be a DEALER,
 * because a REQ would get only the first message.
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
        // The subscriber is gone, or does not read.
        counts.failed++;
      }
    }
  } catch {
    // The socket was closed.
  }
}
