// The end of a client's request, by every way in which a client can learn it.
import { expect } from 'vitest';
import { BlockstepError } from '../../src/index.js';
import type { Client } from './random-life.js';

/**
 * The end of a client's request, by every way in which the client can learn it; they must agree.
 */
export async function endOf(client: Client): Promise<string> {
  const settled = await client.result;
  const left = client.stream.ended && client.ended === 'done' && client.read.at(-1)?.finishReason == null;
  if (settled.status === 'rejected') {
    const { reason } = settled;
    if (!left) expect(client.ended).toBe(reason);
    return reason instanceof BlockstepError ? reason.code : 'aborted with a reason';
  }
  const { finishReason } = settled.value;
  if (!left) expect(client.read.at(-1)?.finishReason).toBe(finishReason);
  return finishReason;
}
