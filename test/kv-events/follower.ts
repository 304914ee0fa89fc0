import { Decoder } from '@msgpack/msgpack';
import { Dealer, Subscriber } from 'zeromq';

const END = 'f'.repeat(16);

/** A subscriber of KV cache events that knows nothing but what is published, as a router's would. */
export class Follower {
  /** By medium; of a KV cache group behind the first one by `GPU of 1`. */
  readonly hashes = new Map<string, Set<string>>();
  /** Number of the batch that was applied last. */
  last = -1;
  replays = 0;
  readonly batches: unknown[][] = [];
  readonly #subscriber = new Subscriber();
  readonly #dealer = new Dealer();
  readonly #decoder = new Decoder({ useBigInt64: true });
  readonly #lose: (heard: number) => boolean;
  #heard = 0;
  #done: Promise<void> | null = null;

  /** @param lose whether the so-manieth message is lost on the way */
  constructor(endpoint: string, replay: string, lose: (heard: number) => boolean = () => false) {
    this.#lose = lose;
    this.#subscriber.connect(endpoint);
    this.#subscriber.subscribe('');
    this.#dealer.connect(replay);
  }

  start(): void {
    this.#done = this.#follow();
  }

  /** Requests the missing batches, until a batch was applied. */
  async reach(seq: number): Promise<void> {
    while (this.last < seq) await this.replay();
  }

  async replay(): Promise<void> {
    this.replays++;
    const from = Buffer.alloc(8);
    from.writeBigUInt64BE(BigInt(this.last + 1));
    await this.#dealer.send([Buffer.alloc(0), from]);
    for (;;) {
      const frames = await this.#dealer.receive();
      const [seq, payload] = frames.slice(-2);
      if (seq.toString('hex') === END) return;
      this.#receive(Number(seq.readBigUInt64BE()), payload);
    }
  }

  async close(): Promise<void> {
    this.#subscriber.close();
    this.#dealer.close();
    await this.#done;
  }

  async #follow(): Promise<void> {
    for await (const [, seq, payload] of this.#subscriber) {
      if (this.#lose(this.#heard++)) continue;
      const number = Number(seq.readBigUInt64BE());
      // Behind a gap nothing is applied before the replay.
      if (number === this.last + 1) this.#receive(number, payload);
    }
  }

  #receive(seq: number, payload: Uint8Array): void {
    if (seq !== this.last + 1) return;
    this.last = seq;
    const batch = this.#decoder.decode(payload) as [number, unknown[], number];
    this.batches.push(batch);
    for (const event of batch[1]) this.#apply(event);
  }

  #apply(event: unknown): void {
    const { type, hashes, medium, group } = Array.isArray(event) ? ofArray(event) : ofMap(event as WireMap);
    if (type === 'AllBlocksCleared') {
      for (const name of [...this.hashes.keys()]) if (name.startsWith('GPU')) this.hashes.delete(name);
      return;
    }
    const name = group === 0 ? medium : `${medium} of ${group}`;
    const known = this.hashes.get(name) ?? new Set();
    this.hashes.set(name, known);
    for (const hash of hashes) {
      const text =
        typeof hash === 'object'
          ? Buffer.from(hash).toString('hex')
          : BigInt(hash).toString(16).padStart(16, '0');
      if (type === 'BlockStored') known.add(text);
      else if (!known.delete(text)) throw new Error(`${text} is removed, and was not stored`);
    }
  }
}

type WireHash = Uint8Array | bigint | number;

/** The fields that the follower reads of an event in the form of a map. */
interface WireMap {
  readonly type: string;
  readonly block_hashes: readonly WireHash[];
  readonly medium: string;
  readonly group_idx: number;
}

/** An event, whatever its form. */
interface Read {
  readonly type: string;
  readonly hashes: readonly WireHash[];
  readonly medium: string;
  readonly group: number;
}

function ofMap({ type, block_hashes: hashes, medium, group_idx: group }: WireMap): Read {
  return { type, hashes, medium, group };
}

function ofArray(fields: readonly unknown[]): Read {
  const [type, hashes] = fields;
  const [medium, group] = type === 'BlockStored' ? [fields[6], fields[9]] : [fields[2], fields[3]];
  return { type, hashes, medium, group } as Read;
}
