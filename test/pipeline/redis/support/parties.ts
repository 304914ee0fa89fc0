// A party that records its messages.
import { onTestFinished } from 'vitest';
import type { Connection, PipelineMessage } from '../../../../src/pipeline/index.js';
import {
  type RedisPartyStats,
  RedisTransport,
  type RedisTransportOptions,
} from '../../../../src/pipeline/redis/index.js';
import { until } from '../../../support/waiting.js';

/** Short times, so that troubles are over soon. */
export const FAST = { commandTimeoutMs: 300 };

/** A party of a transport of its own, as another process would have it, which notes what comes. */
export class Noted {
  readonly name: string;
  readonly transport: RedisTransport;
  readonly connection: Connection;
  /** Numbers of the pings that came. */
  readonly numbers: number[] = [];
  readonly messages: PipelineMessage[] = [];
  readonly losses: (string | null)[] = [];
  readonly whys: string[] = [];

  private constructor(name: string, transport: RedisTransport) {
    this.name = name;
    this.transport = transport;
    this.connection = transport.join(name, {
      receive: (message) => {
        this.messages.push(message);
        if (message.kind === 'ping') this.numbers.push(message.number);
      },
      lost: (from, why) => {
        this.losses.push(from);
        this.whys.push(why);
      },
    });
  }

  static async join(
    name: string,
    { url }: { url: string },
    options: Partial<RedisTransportOptions> = {},
  ): Promise<Noted> {
    const party = new Noted(name, await RedisTransport.open({ url, ...FAST, ...options }));
    onTestFinished(() => party.connection.close());
    return party;
  }

  get stats(): RedisPartyStats {
    return this.transport.stats()[this.name];
  }

  /** Sends pings with these numbers. */
  ping(to: string, first: number, last = first): void {
    for (let number = first; number <= last; number++)
      this.connection.send(to, { kind: 'ping', client: this.name, number });
  }

  async connected(): Promise<void> {
    await until(() => this.stats.isConnected, `the connection of ${this.name}`);
  }

  /** Waits until another party has heard of this one: this one's inbox is there, too, then. */
  async meets(other: Noted): Promise<void> {
    this.connection.send(other.name, { kind: 'abort', key: '' });
    await until(() => other.messages.length > 0, `word of ${this.name}`);
  }

  /** Waits until so many pings have come. */
  async has(count: number): Promise<void> {
    await until(
      () => this.numbers.length >= count,
      `ping ${count} at ${this.name}, which has ${this.numbers.length}`,
    );
  }
}

/** Numbers from 1 on, or from `first`. */
export function upTo(last: number, first = 1): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}
