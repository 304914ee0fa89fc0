// The id of an HTTP request, from its client or new.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** One to 128 printable characters of ASCII. */
const GOOD = /^[\x20-\x7e]{1,128}$/;

/**
 * The id of an HTTP request, for the log and the `x-request-id` of the answer: the one that the client or a proxy gave it, or a new one.
 * The engine has ids of its own: two clients may give the same.
 */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && GOOD.test(given) ? given : randomUUID();
}
