// Chunks through a transport, beside the bare client of a server.
import { Redis } from 'iovalkey';
import type { PipelineMessage, Transport } from '../../src/pipeline/index.js';
import { toWire } from '../../src/pipeline/redis/wire/message-parts.js';
import { Packer } from '../../src/pipeline/redis/wire/packer.js';

/** Chunks that are on their way at a time, and tokens of a chunk. */
const WINDOW = 1024;
const TOKENS = 16;

/** Chunks a second with many on their way, and microseconds of one that goes alone: the median. */
export interface Carried {
  readonly perSecond: number;
  readonly aloneUs: number;
}

/** A carrier of chunks: sends one, and reports its arrival. */
interface Carrier {
  /** @param come called when the message has arrived at the other side */
  open(come: () => void): Promise<{ send(message: PipelineMessage): void; close(): Promise<void> }>;
}

function chunk(number: number): PipelineMessage {
  const tokens = new Int32Array(TOKENS).fill(100_000);
  return { kind: 'chunk', key: 'a1b2c3d4e5f6.17', chunk: { number, tokens, extras: null, isLast: false } };
}

/** Bytes of the message that is measured. */
export async function sizeOfMessage(): Promise<number> {
  return (await Packer.open(2 ** 20)).pack(toWire(chunk(1000))).length;
}

/** A transport, from one party to another. */
export function byTransport(make: () => Promise<Transport>): Carrier {
  return {
    async open(come) {
      const transport = await make();
      const to = transport.join('stage/to', { receive: come, lost: (_from, why) => fail(why) });
      const from = transport.join('stage/from', { receive: () => {}, lost: (_from, why) => fail(why) });
      const close = async (): Promise<void> => {
        await from.close();
        await to.close();
      };
      return { send: (message) => from.send('stage/to', message), close };
    },
  };
}

/** The client alone: an entry a message, of the same bytes, and the reader acknowledges and removes what it has read. */
export function byBareClient(url: string): Carrier {
  const path = url.slice('redis+unix://'.length);
  return {
    async open(come) {
      const bytes = Buffer.alloc(await sizeOfMessage(), 1);
      const writer = new Redis({ path, enableAutoPipelining: true });
      const reader = new Redis({ path });
      await reader.del('bare');
      await reader.xgroup('CREATE', 'bare', 'g', '0', 'MKSTREAM');
      let isOpen = true;
      const over = (async () => {
        let done: Buffer[] = [];
        while (isOpen) {
          const commands = reader.pipeline();
          if (done.length > 0) commands.xack('bare', 'g', ...done).xdel('bare', ...done);
          const rest = ['COUNT', 64, 'BLOCK', 100, 'STREAMS', 'bare', '>'];
          commands.callBuffer('XREADGROUP', 'GROUP', 'g', 'c', ...rest);
          const replies = (await commands.exec()) ?? [];
          const streams = replies.at(-1)?.[1] as [Buffer, [Buffer, Buffer[]][]][] | null;
          done = (streams?.[0]?.[1] ?? []).map(([id]) => id);
          for (const _ of done) come();
        }
      })();
      const close = async (): Promise<void> => {
        isOpen = false;
        await over;
        writer.disconnect();
        reader.disconnect();
      };
      return { send: () => void writer.xadd('bare', 'MAXLEN', '~', 100_000, '*', 'm', bytes), close };
    },
  };
}

/** @param count chunks with many on their way */
export async function measure(carrier: Carrier, count: number): Promise<Carried> {
  let come = 0;
  let told: () => void = () => {};
  const side = await carrier.open(() => {
    come++;
    told();
  });
  const run = (chunks: number, window: number): Promise<void> =>
    new Promise((resolve) => {
      come = 0;
      let sent = 0;
      told = () => {
        while (sent < chunks && sent - come < window) side.send(chunk(++sent));
        if (come === chunks) resolve();
      };
      told();
    });
  await run(WINDOW, WINDOW);
  const begun = performance.now();
  await run(count, WINDOW);
  const perSecond = (1000 * count) / (performance.now() - begun);
  const times: number[] = [];
  for (let i = 0; i < 500; i++) {
    const at = performance.now();
    await run(1, 1);
    times.push(performance.now() - at);
  }
  await side.close();
  return { perSecond, aloneUs: 1000 * times.sort((a, b) => a - b)[times.length >> 1] };
}

function fail(why: string): never {
  throw new Error(`a message was lost: ${why}`);
}
