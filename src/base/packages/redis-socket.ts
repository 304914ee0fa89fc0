import type { EventEmitter } from 'node:events';

interface Connector {
  connect(...told: unknown[]): Promise<EventEmitter>;
}

/**
 * Lets no error of a connection's socket go unheard. iovalkey listens for the first one only; a second one, as when a handshake with TLS
 * is given up in the middle, would be an uncaught exception and end the process.
 * @param redis a client of iovalkey that has not begun to connect
 */
export function hearSocketErrors(redis: object): void {
  const { connector } = redis as { connector: Connector };
  const connect = connector.connect.bind(connector);
  connector.connect = async (...told) => {
    const socket = await connect(...told);
    // The client tells of the first, and has no use for more.
    return socket.on('error', () => {});
  };
}
