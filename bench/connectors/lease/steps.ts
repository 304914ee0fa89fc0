// Steps with a lease connector: its cases of `steps.ts`.
import { LeaseConnector, LeaseWorker, MemoryHub, type Parcel } from '../../../src/connectors/lease/index.js';
import type { Engine, EngineOptions } from '../../../src/index.js';
import { BlockArena } from '../../../src/transfer.js';
import { Decodes, sleep } from '../support/decodes.js';
import { type Measured, plainCase, type StepCase } from '../support/step-case.js';

/** Leases that are granted, and requests that queue whose leases of a peer are kept alive. */
const LEASES = 64;
/** A sign of life every 500 ms is ten times as many as by default. */
const LEASE_MS = 3000;

type Params = Readonly<Record<string, unknown>>;
type MakeOptions = (numBlocks: number) => Pick<EngineOptions, 'connector' | 'workers'>;

/** The messages between engines of one process: they are delivered in the step that sends them. */
class Wire {
  readonly #parcels: Parcel[] = [];
  readonly #hub = new MemoryHub({ carry: (parcel) => void this.#parcels.push(parcel) });

  deliver(): void {
    for (let i = 0; i < this.#parcels.length; i++) this.#hub.deliver(this.#parcels[i]);
    this.#parcels.length = 0;
  }

  /** The sides of a lease connector. */
  readonly sides = (name: string): MakeOptions => {
    return (numBlocks) => {
      const kv = BlockArena.allocate({ numBlocks, bytesPerBlock: 64 });
      const connector = new LeaseConnector({ addresses: [name], leaseMs: LEASE_MS });
      return {
        connector,
        workers: [new LeaseWorker({ memory: { kv }, link: this.#hub.link(name) })],
      };
    };
  };
}

/** Makes one engine compute prompts whose KV another engine will read. */
async function offers({ engine, decodes, wire }: Side, first: number): Promise<readonly Params[]> {
  const streams = Array.from({ length: LEASES }, (_, i) =>
    engine.submit({
      prompt: decodes.prompt(first + i),
      maxTokens: 1,
      transferParams: { doRemoteDecode: true },
    }),
  );
  while (engine.stats().scheduler.numDraining < LEASES) {
    engine.step();
    wire.deliver();
    // A connector beside it may want to ask somebody first.
    sleep(1);
  }
  return await Promise.all(streams.map(async (stream) => (await stream.result()).transferParams ?? {}));
}

/** Requests that wait for a place to run, with leases of the peer. */
function queue({ engine, decodes }: Side, params: readonly Params[], first: number): void {
  for (const [i, transferParams] of params.entries()) {
    engine
      .submit({ prompt: decodes.prompt(first + i), maxTokens: 2, transferParams })
      .result()
      .catch(() => {});
  }
}

interface Side {
  readonly decodes: Decodes;
  readonly engine: Engine;
  readonly wire: Wire;
}

/**
 * An engine whose requests decode while 64 leases are granted to a peer that renews them. Meanwhile
 * 64 requests queue, and their leases from the peer are kept alive. @param around makes sides of
 * those of the lease, for several connectors
 */
export async function atWork(
  numSteps: number,
  around: (lease: MakeOptions) => MakeOptions = (lease) => lease,
): Promise<Measured> {
  const wire = new Wire();
  const [busy, peer] = [around(wire.sides('busy')), wire.sides('peer')].map((makeSides): Side => {
    const decodes = new Decodes(numSteps, makeSides);
    return { decodes, engine: decodes.engine, wire };
  });
  // Leases come first, while the decodes do not fill every place.
  const [theirs, ours] = [await offers(peer, 1000), await offers(busy, 2000)];
  busy.decodes.start('spread');
  queue(busy, theirs, 1000);
  peer.decodes.start('spread');
  queue(peer, ours, 2000);
  const before = (): void => {
    peer.engine.step();
    wire.deliver();
  };
  const check = (): void => {
    const stats = busy.engine.stats().scheduler;
    if (stats.numDraining === LEASES && stats.numWaiting + stats.numSkipped >= LEASES) return;
    throw new Error(`the workload is not what it says: ${JSON.stringify(stats)}`);
  };
  return { decodes: busy.decodes, also: () => wire.deliver(), before, check };
}

export const LEASE_STEPS: readonly StepCase[] = [
  plainCase('lease, idle', 'alike', (numBlocks) => new Wire().sides('idle')(numBlocks)),
  { name: 'lease, at work', texts: 'spread', make: (numSteps) => atWork(numSteps) },
];
