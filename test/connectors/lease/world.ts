import { expect } from 'vitest';
import {
  LeaseConnector,
  type LeaseConnectorOptions,
  LeaseWorker,
  type LeaseWorkerOptions,
  MemoryHub,
  type Parcel,
} from '../../../src/connectors/lease/index.js';
import { Engine, type EngineOptions, ReferenceExecutor, type RequestStream } from '../../../src/index.js';
import { settled } from '../../support/engine-bench.js';
import { LateLanes } from './late-lane.js';

export const SEED = 3;
export const BLOCK_SIZE = 4;
export const LEASE_MS = 600;
export const SIZES = {
  numBlocks: 48,
  blockSize: BLOCK_SIZE,
  maxNumSeqs: 6,
  maxNumBatchedTokens: 48,
  maxModelLen: 96,
};

/** Transfer params of a request whose KV is to be handed over. */
export const FAR = { doRemoteDecode: true };

/** The options in which engines of a world differ. */
export interface NodeOptions {
  engine?: Partial<EngineOptions>;
  connector?: Partial<LeaseConnectorOptions>;
  worker?: Partial<LeaseWorkerOptions>;
}

/**
 * An engine with a lease connector, whose steps, copies and messages come when the test orders
 * them.
 */
export class Node {
  readonly name: string;
  readonly options: NodeOptions;
  readonly world: World;
  engine!: Engine;
  executor!: ReferenceExecutor;
  connector!: LeaseConnector;
  worker!: LeaseWorker;
  lanes!: LateLanes;
  waiting!: (() => void)[];

  constructor(world: World, name: string, options: NodeOptions) {
    this.world = world;
    this.name = name;
    this.options = options;
    this.start();
  }

  start(): void {
    const { world, options } = this;
    const { executor: _, ...engine } = { ...SIZES, pipelineDepth: 1 as const, ...options.engine };
    const waiting: (() => void)[] = [];
    this.waiting = waiting;
    this.lanes = new LateLanes();
    this.executor = new ReferenceExecutor({
      ...{ ...engine, seed: SEED },
      defer: (compute) => waiting.push(compute),
    });
    this.connector = new LeaseConnector({ addresses: [this.name], leaseMs: LEASE_MS, ...options.connector });
    this.worker = new LeaseWorker({
      ...{ memory: this.executor, link: world.hub.link(this.name), now: () => world.time },
      ...{ peerTimeoutMs: 300, retryMs: 20, reapMs: 5000, pieceBytes: 256, stagingBytes: 512 },
      ...{ makeLane: this.lanes.make, ...options.worker },
    });
    this.engine = new Engine({
      ...{ ...SIZES, executor: this.executor, connector: this.connector, workers: [this.worker] },
      ...{ strict: true, now: () => world.time, loadFailurePolicy: 'recompute' },
      ...{ deadlines: { load: 0, reclaim: 60_000 }, ...options.engine },
    });
  }

  /** The process dies and is started again: no peer gets a message. */
  restart(): void {
    this.world.muted = true;
    this.engine.dispose();
    this.executor.dispose();
    this.world.muted = false;
    this.start();
  }

  /** One step of the engine if it has work, as `Engine.run` makes it; the executor answers at once. */
  async step(): Promise<void> {
    if (!this.engine.hasWork()) return;
    this.engine.step();
    this.waiting.shift()?.();
    await settled();
  }

  /** Nothing is at work, and nothing is kept. */
  get isAtRest(): boolean {
    const { scheduler } = this.engine.stats();
    const { leases, reads, ways } = this.worker.stats();
    const kept = [leases.open, leases.readings, reads.open, reads.watched, ways.staged];
    const { requests, orders } = this.connector.stats();
    const all = [
      ...kept,
      requests,
      orders,
      scheduler.numDraining,
      scheduler.numQuarantined,
      scheduler.kvCacheUsage,
    ];
    return !this.engine.hasWork() && all.every((number) => number === 0);
  }
}

/** A parcel, and its content. */
export interface Said extends Parcel {
  readonly message: Readonly<Record<string, unknown>>;
}

/** The kind of a parcel's message: `open`, `confirm`, `closed` and so on. */
export function kindOf({ frames }: Parcel): string {
  const { message } = JSON.parse(Buffer.from(frames[0]).toString()) as Pick<Said, 'message'>;
  return String(message['kind']);
}

/** Engines of one process with a clock of their own, whose messages the test carries. */
export class World {
  time = 1000;
  /** Messages that wait to be delivered, the oldest first. */
  readonly parcels: Parcel[] = [];
  /** Drops every message that is sent. */
  muted = false;
  readonly nodes: Node[] = [];
  /** Every message that was sent, the oldest first. */
  readonly said: Said[] = [];
  readonly hub = new MemoryHub({
    carry: (parcel) => {
      this.said.push({ ...parcel, ...JSON.parse(Buffer.from(parcel.frames[0]).toString()), ...parcel });
      if (!this.muted) this.parcels.push(parcel);
    },
  });

  /** Sends a message of the same two lives as an earlier message. */
  forge({ frames, from, to }: Said, message: Readonly<Record<string, unknown>>): void {
    const envelope = { ...JSON.parse(Buffer.from(frames[0]).toString()), message };
    this.parcels.push({ from, to, frames: [Buffer.from(JSON.stringify(envelope))] });
  }

  add(name: string, options: NodeOptions = {}): Node {
    const node = new Node(this, name, options);
    this.nodes.push(node);
    return node;
  }

  /** Adds the two engines of most tests: the first computes prompts, and the second decodes. */
  pair(forPrefill: NodeOptions = {}, forDecode: NodeOptions = {}): [Node, Node] {
    return [this.add('p', forPrefill), this.add('d', forDecode)];
  }

  /**
   * Computes a prompt with an engine, by default the first. @returns the transfer params of its
   * last output
   */
  async prefill(
    prompt: Int32Array,
    { from = this.nodes[0], id }: { from?: Node; id?: string } = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const input = { prompt, maxTokens: 1, transferParams: FAR, ...(id !== undefined && { id }) };
    const { transferParams } = await this.ended(from.engine.submit(input));
    expect(transferParams).not.toBeNull();
    return transferParams ?? {};
  }

  /** Delivers all parcels that are under way, and the parcels that they cause. */
  deliver(): void {
    for (let parcel = this.parcels.shift(); parcel !== undefined; parcel = this.parcels.shift())
      this.hub.deliver(parcel);
  }

  /** Delivers what is under way to one engine, and leaves the rest. */
  deliverTo(name: string): void {
    const own = this.parcels.filter(({ to }) => to === name);
    for (const parcel of own) {
      this.parcels.splice(this.parcels.indexOf(parcel), 1);
      this.hub.deliver(parcel);
    }
  }

  /** One turn in which everything goes well: every engine steps, every copy ends, every message arrives. */
  async turn(ms = 1): Promise<void> {
    this.time += ms;
    for (const node of this.nodes) {
      await node.step();
      this.deliver();
      node.lanes.runAll();
    }
  }

  /** Turns in which every engine steps and every message arrives, and only the copies of these engines end. */
  async stalledTurns(turns: number, copying: readonly Node[] = []): Promise<void> {
    for (let i = 0; i < turns; i++) {
      this.time++;
      for (const node of this.nodes) await node.step();
      this.deliver();
      for (const { lanes } of copying) lanes.runAll();
    }
  }

  /** Turns until something holds. */
  async until(holds: () => boolean, what: string, ms = 1): Promise<void> {
    for (let i = 0; i < 5000; i++) {
      if (holds()) return;
      await this.turn(ms);
    }
    throw new Error(`never: ${what}`);
  }

  /** Turns until a stream has ended. */
  async ended(stream: RequestStream) {
    let result: Awaited<ReturnType<RequestStream['result']>> | undefined;
    let error: unknown;
    stream.result().then(
      (value) => {
        result = value;
      },
      (reason: unknown) => {
        error = reason;
      },
    );
    await this.until(() => result !== undefined || error !== undefined, 'the request ends');
    if (result === undefined) throw error;
    return result;
  }

  /** Turns until nothing is at work, then looks for anything that is left. */
  async rest(): Promise<void> {
    await this.until(() => this.nodes.every((node) => node.isAtRest), 'all engines come to rest', 20);
    for (const { executor, engine, worker } of this.nodes) {
      expect(executor.faults).toEqual([]);
      expect(engine.stats().workerFailures).toBe(0);
      expect(worker.stats().ignored).toMatchObject({ malformed: 0, failed: 0 });
    }
  }

  dispose(): void {
    for (const { engine, executor } of this.nodes) {
      engine.dispose();
      executor.dispose();
    }
  }
}
