import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { BulkReader } from './bulk-reader.js';

/** The address of a server. */
export interface Place {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
}

/**
 * Makes a connector class for iovalkey, for one connection, whose large values a `BulkReader`
 * reads. It serves sockets without TLS, because decryption copies the bytes anyway.
 * @param abstract the class of connectors of iovalkey
 * @param told called with the reader when the connection begins
 */
export function directConnector(
  abstract: typeof import('iovalkey').AbstractConnector,
  place: Place,
  told: (reader: BulkReader) => void,
): new () => InstanceType<typeof import('iovalkey').AbstractConnector> {
  return class DirectConnector extends abstract {
    constructor() {
      super(0);
    }

    connect(): Promise<Socket> {
      this.connecting = true;
      let socket: Socket | null = null;
      const reader = new BulkReader((bytes) => socket?.emit('data', bytes));
      told(reader);
      const onread = {
        buffer: () => reader.room(),
        callback: (count: number) => {
          reader.receive(count);
          return true;
        },
      };
      const where =
        place.path === undefined ? { host: place.host, port: place.port ?? 6379 } : { path: place.path };
      socket = connect({ ...where, onread } as NetConnectOpts);
      this.stream = socket;
      return Promise.resolve(socket);
    }
  };
}
