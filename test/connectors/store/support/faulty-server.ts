import { MemoryStore } from '../../../../examples/memory-store.js';
import { Random } from '../../../../src/base/random.js';
import { type BlockStore, Outcome, type Visit } from '../../../../src/connectors/store/index.js';

/** How a server is for a while. */
const MOODS = ['well', 'well', 'well', 'well', 'slow', 'down', 'full', 'forgetful'] as const;
type Mood = (typeof MOODS)[number];

/** Everything that it does to stores. */
const FAULTS = [
  ...['down', 'full', 'hanging', 'refused', 'lie', 'lost', 'forgotten', 'harmed'],
  ...['broken get', 'broken put', 'strange visit', 'no answer'],
] as const;
type Fault = (typeof FAULTS)[number];

/** A call that waits for its time. */
interface Waiting {
  readonly dueAt: number;
  readonly goOn: () => void;
}

/**
 * A server that keeps blocks in memory, for stores that speak to it, with faults by the seed and
 * the clock of a run. It is down, slow, full, or hangs. It loses and damages values, lies about
 * them, and gives answers of wrong shapes.
 */
export class FaultyServer {
  readonly #values = new MemoryStore(2 ** 24);
  /**
   * The keys of all values that were ever stored: for values under the wrong key, and for removed
   * values.
   */
  readonly #keys: string[] = [];
  readonly #random: Random;
  readonly #now: () => number;
  #waiting: Waiting[] = [];
  #mood: Mood = 'well';
  #moodUntil = 0;
  #isCalm = false;
  static readonly FAULTS = FAULTS;
  /** The number of faults of each kind. */
  readonly counts = Object.fromEntries(FAULTS.map((fault) => [fault, 0])) as Record<Fault, number>;

  constructor(seed: number, now: () => number) {
    this.#random = new Random(seed + 0x5707e);
    this.#now = now;
  }

  /** Opens a store; may fail. */
  async open(): Promise<BlockStore> {
    await this.#wait(undefined);
    if (this.#mood === 'down') throw new Error('nobody listens');
    return {
      has: (keys, signal) => this.#has(keys, signal),
      get: (keys, visit, signal) => this.#get(keys, visit, signal),
      put: (keys, values, signal) => this.#put(keys, values, signal),
      remove: (keys, signal) => this.#remove(keys, signal),
      close: () => Promise.resolve(),
    };
  }

  /** Time has passed. */
  tick(): void {
    const now = this.#now();
    if (!this.#isCalm && now >= this.#moodUntil) {
      this.#mood = MOODS[this.#random.below(MOODS.length)];
      this.#moodUntil = now + 10 + this.#random.below(120);
    }
    if (this.#chance(this.#mood === 'forgetful' ? 30 : 2)) this.#lose();
    const due = this.#waiting.filter(({ dueAt }) => dueAt <= now);
    this.#waiting = this.#waiting.filter(({ dueAt }) => dueAt > now);
    for (const { goOn } of due.sort((a, b) => a.dueAt - b.dueAt)) goOn();
  }

  /** From now on nothing goes wrong. Calls that hang go on hanging. */
  calm(): void {
    this.#isCalm = true;
    this.#mood = 'well';
  }

  async #has(keys: readonly string[], signal: AbortSignal): Promise<Uint8Array> {
    await this.#wait(signal);
    this.#mayFail();
    const outcomes = await this.#values.has(keys);
    for (const i of keys.keys())
      if (this.#chance(3)) outcomes[i] = this.#note('lie', this.#chance(50) ? Outcome.done : Outcome.missing);
    return this.#rude(outcomes);
  }

  async #get(keys: readonly string[], visit: Visit, signal: AbortSignal): Promise<void> {
    await this.#wait(signal, 8);
    this.#mayFail();
    const order = [...keys.keys()].sort(() => this.#random.next() - 0.5);
    for (const [at, index] of order.entries()) {
      if (at > 0 && this.#chance(20)) await this.#wait(signal);
      if (this.#chance(2)) throw this.#note('broken get', new Error('connection reset'));
      await this.#values.get([keys[index]], (_, value) => visit(index, this.#harm(value)));
      if (this.#chance(3)) visit(this.#note('strange visit', this.#random.below(keys.length + 2)), null);
    }
  }

  async #put(
    keys: readonly string[],
    values: readonly Uint8Array[],
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    await this.#wait(signal);
    const outcomes = new Uint8Array(keys.length);
    for (const [i, key] of keys.entries()) {
      if (this.#chance(2)) throw this.#note('broken put', new Error('connection reset'));
      outcomes[i] = this.#putOutcome();
      if (outcomes[i] !== Outcome.done || (this.#chance(3) && this.#note('forgotten', true))) continue;
      await this.#values.put([key], [values[i]]);
      this.#keys.push(key);
    }
    this.#mayFail();
    return this.#rude(outcomes);
  }

  async #remove(keys: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#wait(signal);
    this.#mayFail();
    await this.#values.remove(keys);
  }

  #putOutcome(): Outcome {
    if (this.#mood === 'full') return this.#note('full', Outcome.full);
    return this.#chance(2) ? this.#note('refused', Outcome.failed) : Outcome.done;
  }

  #mayFail(): void {
    if (this.#mood === 'down') throw this.#note('down', new Error('connection refused'));
  }

  /** The value as it arrives, with damage now and then. */
  #harm(value: Uint8Array | null): Uint8Array | null {
    if (value === null || !this.#chance(10)) return value;
    const copy = Uint8Array.from(value);
    this.#note('harmed', 0);
    switch (this.#random.below(5)) {
      case 0:
        copy[this.#random.below(copy.length)] ^= 1 << this.#random.below(8);
        return copy;
      case 1:
        return copy.subarray(0, this.#random.below(copy.length));
      case 2:
        return this.#other() ?? copy;
      case 3:
        return null;
      default:
        // Bytes that an engine of another version might have written.
        return copy.fill(this.#random.below(256));
    }
  }

  /** A value under another key. */
  #other(): Uint8Array | null {
    let found: Uint8Array | null = null;
    void this.#values.get([this.#someKey()], (_, value) => {
      found = value;
    });
    return found;
  }

  #lose(): void {
    void this.#values.remove([this.#note('lost', this.#someKey())]);
  }

  #someKey(): string {
    return this.#keys[this.#random.below(this.#keys.length)] ?? 'none';
  }

  /** Sometimes an answer has a wrong shape. */
  #rude(outcomes: Uint8Array): Uint8Array {
    if (!this.#chance(2)) return outcomes;
    const answers = [
      outcomes.subarray(1),
      outcomes.map(() => 7),
      undefined,
      [...outcomes],
      new Uint8Array(999),
    ];
    return this.#note('no answer', answers[this.#random.below(answers.length)] as Uint8Array);
  }

  /**
   * Waits until the server answers a call. Most calls that are aborted end soon; some go on, and
   * some never end.
   */
  #wait(signal: AbortSignal | undefined, hangs = 3): Promise<void> {
    const isSlow = this.#mood === 'slow' && this.#chance(50);
    const isHanging = signal !== undefined && this.#chance(hangs);
    const ms = this.#isCalm ? 0 : this.#random.below(isSlow ? 200 : 5);
    return new Promise((resolve, reject) => {
      if (!isHanging) {
        this.#waiting.push({ dueAt: this.#now() + ms, goOn: resolve });
        return;
      }
      this.#note('hanging', 0);
      const end = this.#random.below(20);
      signal.addEventListener('abort', () => {
        if (end === 0) return;
        const goOn = end < 12 ? resolve : () => reject(new Error('aborted'));
        this.#waiting.push({ dueAt: this.#now() + this.#random.below(40), goOn });
      });
    });
  }

  #chance(percent: number): boolean {
    return !this.#isCalm && this.#random.next() * 100 < percent;
  }

  #note<T>(what: Fault, value: T): T {
    this.counts[what]++;
    return value;
  }
}
