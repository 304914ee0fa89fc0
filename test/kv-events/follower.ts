import { Decoder } from '@msgpack/msgpack';
import { Dealer, Subscriber } from 'zeromq';

const END = 'f'.repeat(16);

/** A subscriber of KV cache events that knows nothing but what is published, as a router's would. */
export class Follower {
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

  /** Asks for what is missing, until a batch was applied. */
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
      this.#take(Number(seq.readBigUInt64BE()), payload);
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
      if (number === this.last + 1) this.#take(number, payload);
    }
  }

  #take(seq: number, payload: Uint8Array): void {
    if (seq !== this.last + 1) return;
    this.last = seq;
    const batch = this.#decoder.decode(payload) as [number, unknown[], number];
    this.batches.push(batch);
    for (const event of batch[1]) this.#apply(event);
  }

  #apply(event: unknown): void {
    const [type, hashes, medium] = Array.isArray(event)
      ? [event[0], event[1], event[0] === 'BlockStored' ? event[6] : event[2]]
      : [
          (event as { type: string }).type,
          (event as { block_hashes: unknown }).block_hashes,
          (event as { medium: string }).medium,
        ];
    if (type === 'AllBlocksCleared') {
      this.hashes.delete('GPU');
      return;
    }
    const known = this.hashes.get(medium as string) ?? new Set();
    this.hashes.set(medium as string, known);
    for (const hash of hashes as (Uint8Array | bigint | number)[]) {
      const text =
        typeof hash === 'object'
          ? Buffer.from(hash).toString('hex')
          : BigInt(hash).toString(16).padStart(16, '0');
      if (type === 'BlockStored') known.add(text);
      else if (!known.delete(text)) throw new Error(`${text} is removed, and was not stored`);
    }
  }
}
