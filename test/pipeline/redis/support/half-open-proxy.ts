import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * A proxy whose connections fall silent and stay open, as where a machine behind them has gone. The
 * first connection whose client sends one of the given commands is cut off before the server gets
 * it; later ones pass.
 */
export class HalfOpenProxy {
  /** The commands at which a connection falls silent; null: none. */
  silencedBy: RegExp | null = null;
  /** The commands that break their connection, whenever a client sends one; null: none. */
  brokenBy: RegExp | null = null;
  /** Connections that have fallen silent. */
  numSilent = 0;
  /** The commands whose answers are kept back; null: none. */
  #held: RegExp | null = null;
  #kept: (() => void)[] = [];
  url = '';

  /** @param port of the server */
  static async start(port: number): Promise<HalfOpenProxy> {
    const proxy = new HalfOpenProxy();
    const sockets: Socket[] = [];
    const server = createServer((client) => {
      const behind = connect(port, '127.0.0.1');
      sockets.push(client, behind);
      proxy.#join(client, behind);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    proxy.url = `redis://127.0.0.1:${(server.address() as { port: number }).port}`;
    return proxy;
  }

  /** Keeps back the server's answers to these commands, until `release` or `forget`. */
  hold(commands: RegExp): void {
    this.#held = commands;
  }

  release(): void {
    const kept = this.#kept;
    this.forget();
    for (const pass of kept) pass();
  }

  /** Drops the answers that were kept back. */
  forget(): void {
    this.#held = null;
    this.#kept = [];
  }

  #join(client: Socket, behind: Socket): void {
    let isSilent = false;
    let lastSaid = '';
    client.on('error', () => behind.destroy()).on('close', () => behind.destroy());
    behind.on('error', () => client.destroy()).on('close', () => isSilent || client.destroy());
    client.on('data', (data) => {
      lastSaid = data.toString('latin1');
      if (this.brokenBy?.test(lastSaid)) {
        client.destroy();
        return;
      }
      if (!isSilent && this.silencedBy?.test(lastSaid)) {
        isSilent = true;
        this.numSilent++;
        this.silencedBy = null;
      }
      if (!isSilent) behind.write(data);
    });
    behind.on('data', (data) => {
      const pass = (): void => {
        if (!isSilent && !client.destroyed) client.write(data);
      };
      if (this.#held?.test(lastSaid)) this.#kept.push(pass);
      else pass();
    });
  }
}
