import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** One to 128 printable ASCII characters. */
const GOOD = /^[\x20-\x7e]{1,128}$/;

/**
 * The id of an HTTP request, for the log and the `x-request-id` header of the response. The client
 * or a proxy may provide the id; otherwise it is new. The engine's ids are separate, since two
 * clients may send the same id.
 */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && GOOD.test(given) ? given : randomUUID();
}
