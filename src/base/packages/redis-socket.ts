// Handles every error of a connection's socket.
import type { EventEmitter } from 'node:events';

interface Connector {
  connect(...told: unknown[]): Promise<EventEmitter>;
}

/**
 * Handles all errors of a connection's socket. iovalkey listens for the first error only. A second
 * one, as when a TLS handshake is aborted, would be an uncaught exception and end the process.
 * @param redis a client of iovalkey that has not begun to connect
 */
export function hearSocketErrors(redis: object): void {
  const { connector } = redis as { connector: Connector };
  const connect = connector.connect.bind(connector);
  connector.connect = async (...told) => {
    const socket = await connect(...told);
    // The client reports the first error, and has no use for more.
    return socket.on('error', () => {});
  };
}
