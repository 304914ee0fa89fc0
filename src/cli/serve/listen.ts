import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { BlockstepError } from '../../base/errors.js';

/** Consecutive ports that are tried. */
const TRIES = 100;

/**
 * Makes a server listen on a port, or on the next free port.
 * @returns its address for clients on this machine
 * @throws ERR_BLOCKSTEP_BAD_ARG if no port can be used
 */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  for (let tried = port; ; tried++) {
    try {
      await app.listen({ host, port: tried });
      break;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'EADDRINUSE' && port > 0 && tried < Math.min(port + TRIES, 65_535)) continue;
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `cannot listen on ${host} port ${tried}: ${message}`);
    }
  }
  const address = app.server.address() as AddressInfo;
  const isEverywhere = address.address === '0.0.0.0' || address.address === '::';
  const name = isEverywhere ? 'localhost' : address.address;
  return `http://${name.includes(':') ? `[${name}]` : name}:${address.port}`;
}

/** Whether only this machine can reach a listening server. */
export function isLoopback(app: FastifyInstance): boolean {
  const { address } = app.server.address() as AddressInfo;
  return address === '::1' || address.startsWith('127.') || address.startsWith('::ffff:127.');
}
