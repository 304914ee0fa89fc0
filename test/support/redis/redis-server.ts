import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { temporaryFolder } from '../temp-file.js';
import { PATIENCE_MS, pause } from '../waiting.js';

/** Why there is no server to test with; null if there is one. */
export const whyNoRedis: string | null = (() => {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'redis-server is not installed';
  }
})();
if (whyNoRedis !== null) console.log(`skipped: ${whyNoRedis}`);

/** A server of Redis of a test's own, which ends with the test. */
export class RedisServer {
  readonly #arguments: readonly string[];
  readonly folder = temporaryFolder();
  readonly socket = join(this.folder, 'redis.sock');
  port = 0;
  #child: ChildProcess | null = null;

  private constructor(settings: readonly string[]) {
    this.#arguments = settings;
  }

  /** Starts a server. @param settings further arguments, as on its command line */
  static async start(...settings: string[]): Promise<RedisServer> {
    const server = new RedisServer(settings);
    onTestFinished(() => server.stop());
    server.port = await freePort();
    await server.start();
    return server;
  }

  /** The address by its port. */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  get socketUrl(): string {
    return `redis+unix://${this.socket}`;
  }

  /** Starts it again, empty, at the same places. */
  async start(): Promise<void> {
    const places = ['--port', `${this.port}`, '--unixsocket', this.socket, '--dir', this.folder];
    const child = spawn('redis-server', [...places, '--save', '', ...this.#arguments], { stdio: 'ignore' });
    this.#child = child;
    const end = Date.now() + PATIENCE_MS;
    while (!(await answers(this.socket))) {
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`);
      if (Date.now() > end) throw new Error('redis-server does not answer');
      await pause(5);
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.on('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  }

  /** Runs a command of the server. @returns its output */
  command(...words: string[]): string {
    return execFileSync('redis-cli', ['-s', this.socket, ...words], { encoding: 'utf8' }).trim();
  }
}

/** A port that nobody listens at. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket, () => {
      connection.destroy();
      resolve(true);
    });
    connection.on('error', () => resolve(false));
  });
}
