// The conformance suite's leases.
import { LeaseConnector, LeaseWorker, MemoryHub, type Parcel } from '../../../src/connectors/lease/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../../src/testing/index.js';
import { fenceAll } from '../../testing/fence-all.js';

/** The wires between the engines of a run. Messages are late, overtaken, lost and doubled, until it is calm. */
class Wires {
  readonly parcels: Parcel[] = [];
  readonly hub = new MemoryHub({ carry: (parcel) => void this.parcels.push(parcel) });
  isCalm = false;

  /** Delivers some of the parcels that are under way. */
  carry(random: () => number): void {
    for (let most = this.parcels.length; most > 0; most--) {
      if (!this.isCalm && random() < 0.4) continue;
      const at = this.isCalm || random() < 0.9 ? 0 : Math.floor(random() * this.parcels.length);
      const [parcel] = this.parcels.splice(at, 1);
      if (parcel === undefined || (!this.isCalm && random() < 0.04)) continue;
      this.hub.deliver(parcel);
      if (!this.isCalm && random() < 0.04) this.hub.deliver(parcel);
    }
  }
}

/** A lease connector, as the conformance suite makes it: engines with even numbers compute prompts, the others go on. */
export function makeLease(world: ConnectorWorld): ConnectorUnderTest {
  const { memories, engine, makeLane, now, random, shared, numEngines } = world;
  const wires = (shared.get('wires') as Wires | undefined) ?? new Wires();
  shared.set('wires', wires);
  const addresses = memories.map((_, rank) => `engine ${engine}, rank ${rank}`);
  const links = addresses.map((address) => wires.hub.link(address));
  const sharedMemory = random() < 0.5;
  // Where nobody is to read, every lease expires: long ones would only keep a small pool full.
  const connector = new LeaseConnector({ addresses, leaseMs: numEngines === 1 ? 50 : 300 });
  const workers = memories.map(
    (memory, rank) =>
      new LeaseWorker({
        ...{ memory, rank, link: links[rank], now, makeLane, sharedMemory },
        ...{ peerTimeoutMs: 200, retryMs: 20, reapMs: 5000, pieceBytes: 256, stagingBytes: 512 },
      }),
  );
  return {
    connector,
    workers,
    // An engine that does both can wait for itself: its leases are renewed by requests that queue for the leased blocks.
    takes: engine % 2 === 0 ? 'new' : 'hand-overs',
    tick: () => wires.carry(random),
    calm: () => {
      wires.isCalm = true;
    },
    transferParams: () => (random() < 0.6 ? { doRemoteDecode: true } : undefined),
    fence: () => fenceAll(workers),
    // The peers hear nothing of it.
    kill: () => {
      for (const link of links) link.close();
    },
  };
}
