// Compares that with a computation without pages.
import type { Client } from './proof-client.js';
import type { RunConfig } from './proof-config.js';
import { type Answer, expectedAnswers } from './proof-work.js';

export interface CheckInput {
  readonly config: RunConfig;
  /** Handles of the requests that were made to fail. */
  readonly faulted: ReadonlySet<number>;
  /**
   * The engine was disposed with everything in flight: every request that had not ended fails with
   * it.
   */
  readonly disposed: boolean;
}

/** The faults of a request that is over; empty if there are none. */
export function checkClient(client: Client, { config, faulted, disposed }: CheckInput): string[] {
  const wrong: string[] = [];
  const expected = expectedAnswers(client.item, config.options.maxModelLen);
  const all = expected.flatMap((answer) => answer.samples);
  const got = client.answers.flatMap((answer) => answer.tokens);
  const extras = client.answers.flatMap((answer) => answer.extras);

  const end = got.findIndex((token, i) => token !== all[i]?.token);
  if (end >= 0) wrong.push(`token ${end} of ${got.length} is ${got[end]}, not ${all[end]?.token}`);
  if (extras.length !== got.length) wrong.push(`${extras.length} extras for ${got.length} tokens`);
  const extra = extras.findIndex((x, i) => x !== all[i]?.extra);
  if (end < 0 && extra >= 0) wrong.push(`extra ${extra} of ${extras.length} is wrong`);

  if (client.failed && !client.aborted && !disposed && !faulted.has(client.stream.handle)) {
    wrong.push(
      `failed, and nobody made it fail: ${String(client.readError)} / ${String(client.resultError)}`,
    );
  }
  if (client.failed || client.aborted) return [...wrong, ...checkEnd(client)];
  if (client.result === null) return [...wrong, 'has no result'];
  const result = client.result;
  if (result.tokens.length !== got.length || got.some((token, i) => token !== result.tokens[i]))
    wrong.push('result and reader differ');
  if (result.extras?.length !== extras.length || extras.some((x, i) => x !== result.extras?.[i]))
    wrong.push('extras of result and reader differ');
  return [...wrong, ...checkAnswers(client, expected, config)];
}

/** A request that was aborted or failed has ended with that reason. */
function checkEnd(client: Client): string[] {
  if (client.failed) return [];
  return client.result === null ? ['has neither failed nor a result'] : [];
}

/** Each answer has its own length and end. */
function checkAnswers(client: Client, expected: readonly Answer[], config: RunConfig): string[] {
  const wrong: string[] = [];
  const { numBlocks, blockSize } = config.options;
  for (const [i, answer] of expected.entries()) {
    const read = client.answers[i];
    const missing = answer.samples.length - (read?.tokens.length ?? 0);
    if (read !== undefined && missing === 0 && (read.reason === answer.reason || client.item.resumable))
      continue;
    // A request that needs more blocks than the pool has ends with `length`.
    const outgrown =
      read?.reason === 'length' && missing > 0 && answer.total - missing > (numBlocks - 1) * blockSize;
    if (outgrown) return wrong;
    wrong.push(
      `answer ${i}: ${read?.tokens.length} tokens and ${read?.reason}, not ${answer.samples.length} and ${answer.reason}` +
        ` (total ${answer.total}, pool ${(numBlocks - 1) * blockSize})`,
    );
  }
  return wrong;
}
