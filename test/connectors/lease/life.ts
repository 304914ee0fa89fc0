import type { KvGroupOptions } from '../../../src/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { Random } from '../../support/engine-bench.js';
import { kindOf, LEASE_MS, type Node, SEED, World } from './world.js';

/** KV cache groups that one seed in three has. */
const GROUPS: readonly (readonly KvGroupOptions[])[] = [
  [{ type: 'full' }, { type: 'sliding', window: 6 }],
  [
    { type: 'full', blockSize: 16 },
    { type: 'sliding', blockSize: 4, window: 11 },
    { type: 'sliding', blockSize: 8, window: 3 },
  ],
  [{ type: 'full' }, { type: 'mamba', mode: 'all' }],
  [
    { type: 'sliding', window: 1 },
    { type: 'full', blockSize: 8 },
  ],
];

/** A request by way of two engines. */
interface Trip {
  readonly from: Node;
  readonly to: Node;
  isOver: boolean;
}

/** How often each thing happened that a life is there for. */
export type Happened = Record<string, number>;

/**
 * A random life of two engines that compute prompts and two that continue. Messages are lost,
 * doubled, late and overtaken, and links are cut and mended. Engines stand still and are started
 * again, copies come late, clients leave. Every text must be right, and in the end nothing may be
 * left.
 */
export class Life {
  readonly world = new World();
  readonly happened: Happened = {};
  readonly #random: Random;
  readonly #producers: Node[];
  readonly #consumers: Node[];
  readonly #trips: Trip[] = [];
  /** Engines that stand still until a time. */
  readonly #frozen = new Map<Node, number>();
  /** Links that are cut until a time, by both names. */
  readonly #cut = new Map<string, number>();
  readonly #faulty: boolean;
  readonly #hasStates: boolean;
  #prompts = 0;
  /** Clients who leave at the end of this round. */
  readonly #leaving: (() => void)[] = [];
  /** The events with their times: the same for each run of a seed. */
  readonly diary: string[] = [];

  constructor(seed: number) {
    const random = new Random(seed);
    this.#random = random;
    this.#faulty = !random.chance(20);
    const kvGroups = seed % 3 === 0 ? GROUPS[(seed / 3) % GROUPS.length] : undefined;
    this.#hasStates = kvGroups?.some(({ type }) => type === 'mamba') === true;
    const add = (name: string) =>
      this.world.add(name, {
        engine: {
          ...(kvGroups !== undefined && { kvGroups, numBlocks: 72 }),
          pipelineDepth: ([1, 2, 3] as const)[random.below(3)],
          reclaim: random.chance(50) ? 'on-confirmation' : 'on-report',
        },
        worker: { sharedMemory: random.chance(50) },
      });
    this.#producers = [add('p0'), add('p1')];
    this.#consumers = [add('d0'), add('d1')];
  }

  async run(numRequests: number): Promise<void> {
    const { world } = this;
    const random = this.#random;
    for (let i = 0; this.#trips.length < numRequests; i++) {
      if (i > 100_000) throw new Error('the requests do not get through');
      if (random.chance(8) && this.#open < 12) this.#begin();
      world.time += random.chance(2) ? random.below(400) : random.below(4);
      this.#disturb();
      this.#thaw();
      for (const node of world.nodes) {
        if (this.#isFrozen(node)) continue;
        if (random.chance(60) && node.engine.hasWork()) node.engine.step();
        if (random.chance(60)) node.waiting.shift()?.();
        if (random.chance(50)) node.lanes.runOne((count) => random.below(count));
      }
      this.#carry();
      for (const leave of this.#leaving.splice(0)) leave();
      // Every promise has its turn here, and nowhere else, so the seed decides what comes before what.
      await new Promise(setImmediate);
    }
    // From now on everything goes well.
    this.#frozen.clear();
    this.#cut.clear();
    await world.until(() => this.#open === 0, 'all requests end', 5);
    await world.rest();
    for (const { worker } of world.nodes) this.#note(worker.stats());
    world.dispose();
  }

  get #open(): number {
    return this.#trips.filter(({ isOver }) => !isOver).length;
  }

  #isFrozen(node: Node): boolean {
    return (this.#frozen.get(node) ?? 0) > this.world.time;
  }

  #thaw(): void {
    for (const [node, until] of this.#frozen) {
      if (until > this.world.time) continue;
      this.#frozen.delete(node);
      node.lanes.runAll();
    }
  }

  #disturb(): void {
    if (!this.#faulty) return;
    const { world } = this;
    const random = this.#random;
    const node = world.nodes[random.below(4)];
    if (random.below(1000) < 2) this.#frozen.set(node, world.time + random.below(1500));
    // A copy goes on while its process stands still, for longer than its lease and while others write its blocks.
    const copying = this.#consumers.find(({ lanes }) => lanes.numReady > 0);
    if (copying !== undefined && random.below(1000) < 20)
      this.#frozen.set(copying, world.time + LEASE_MS + random.below(3 * LEASE_MS));
    if (random.below(1000) < 2) this.#cut.set(this.#pair(), world.time + random.below(1500));
    if (random.below(1000) < 1) {
      this.#count('restarts');
      node.restart();
    }
  }

  #pair(): string {
    const random = this.#random;
    return [this.#producers[random.below(2)].name, this.#consumers[random.below(2)].name].join();
  }

  #isCut(from: string, to: string): boolean {
    const { time } = this.world;
    return (this.#cut.get(`${from},${to}`) ?? 0) > time || (this.#cut.get(`${to},${from}`) ?? 0) > time;
  }

  /** Delivers some messages, in whatever order, some twice and some never. */
  #carry(): void {
    const { world } = this;
    const random = this.#random;
    const { parcels } = world;
    for (let left = random.below(6); left > 0 && parcels.length > 0; left--) {
      const at = random.chance(80) ? 0 : random.below(parcels.length);
      const [parcel] = parcels.splice(at, 1);
      const receiver = world.nodes.find(({ name }) => name === parcel.to);
      // A reader that is not told of the end of its lease asks before its copy counts.
      const isLost = random.chance(kindOf(parcel) === 'closed' ? 40 : 3);
      if (this.#isCut(parcel.from, parcel.to) || (this.#faulty && isLost)) {
        this.#count('dropped');
        continue;
      }
      if (receiver !== undefined && this.#isFrozen(receiver)) {
        parcels.push(parcel);
        continue;
      }
      this.diary.push(`${world.time} ${parcel.from} > ${parcel.to}`);
      world.hub.deliver(parcel);
      if (!this.#faulty || !random.chance(5)) continue;
      this.#count('doubled');
      parcels.push(parcel);
    }
  }

  #begin(): void {
    const random = this.#random;
    const from = this.#producers[random.below(2)];
    const to = this.#consumers[random.below(2)];
    const trip: Trip = { from, to, isOver: false };
    this.#trips.push(trip);
    void this.#travel(trip).then(
      () => {
        trip.isOver = true;
      },
      (error: unknown) => {
        // An engine that is started again ends its requests; nothing else may.
        if (!String(error).includes('ERR_BLOCKSTEP_DISPOSED') && !String(error).includes('was disposed'))
          this.#failure ??= error;
        this.#count('disposed');
        trip.isOver = true;
      },
    );
  }

  #failure: unknown;

  /** Throws what a request found wrong. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #travel({ from, to }: Trip): Promise<void> {
    const random = this.#random;
    const prompt = wordy(5 + random.below(50), this.#prompts++ % 37);
    const count = 1 + random.below(3);
    const aborts = random.below(20);
    const salts = ['', 'a', 'b'];
    const cacheSalt = salts[random.below(3)];
    const first = from.engine.submit({
      ...{ prompt, cacheSalt, maxTokens: count, transferParams: { doRemoteDecode: true } },
    });
    const { id } = first;
    if (aborts === 0) this.#leaving.push(() => first.abort());
    const prefill = await first.result();
    this.#checkText(prefill.tokens, prompt, count);
    if (prefill.transferParams === null) return;
    this.#count('offered');
    // Aborted behind its end: asks the connector to stop, with `on-confirmation`.
    if (aborts === 1) from.engine.abort(id);
    const transferParams = random.chance(4)
      ? { ...prefill.transferParams, remoteRequestId: 'nobody.7' }
      : prefill.transferParams;
    // A state is that behind all that was computed: its reader is given a token more.
    const given = Int32Array.from([...prompt, ...prefill.tokens]);
    const whole = this.#hasStates ? given : prompt;
    const input = { prompt: random.chance(4) ? wordy(9, 77) : whole, maxTokens: 6, transferParams };
    const rest = to.engine.submit({
      ...{ ...input, cacheSalt: random.chance(10) ? salts[random.below(3)] : cacheSalt },
    });
    if (aborts === 2) this.#leaving.push(() => rest.abort());
    const { tokens, finishReason } = await rest.result();
    this.#checkText(tokens, input.prompt, 6);
    this.#count(finishReason);
    this.diary.push(`${this.world.time} ${finishReason} after ${tokens.length}`);
    if (finishReason === 'length' && tokens.length !== 6) throw new Error('too few tokens');
  }

  #checkText(tokens: Int32Array, prompt: Int32Array, count: number): void {
    const right = unpagedText(prompt, count, { seed: SEED });
    if (tokens.some((token, i) => token !== right[i]))
      this.#failure ??= new Error(`wrong text: ${tokens}, not ${right}`);
  }

  #note({ leases, reads, ways, peerEvents, ignored }: ReturnType<Node['worker']['stats']>): void {
    for (const [name, count] of Object.entries({ ...peerEvents, ...ignored, ...ways, ...leases, ...reads })) {
      this.happened[name] = (this.happened[name] ?? 0) + count;
    }
  }

  #count(what: string): void {
    this.happened[what] = (this.happened[what] ?? 0) + 1;
  }
}
