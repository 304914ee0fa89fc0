import { badArg, isObject } from '../../base/checks.js';
import type { Transport } from './transport.js';

/** Checks that a value can be a transport. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkTransport(value: unknown): Transport {
  const transport = value as Transport;
  if (isObject(value) && typeof transport.join === 'function' && typeof transport.isLocal === 'boolean')
    return transport;
  throw badArg('transport', value, 'a transport: an object with a function join, and isLocal');
}
