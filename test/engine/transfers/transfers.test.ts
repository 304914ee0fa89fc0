// Random lives of an engine with the host tier; with `fenceFrees` loads need not wait for steps in
// flight.
import { HostLane } from '../../../src/transfer.js';
import { describeFencedLife, describeTierLife, type Tiers } from './tier-life.js';

const tiers: Tiers = {
  executor: { defer: (act) => setImmediate(act) },
  place: 'host',
  makeLane: (queue, source, target) => {
    return new HostLane(queue, source, target, { threads: 2, pieceBytes: 128 });
  },
};

describeTierLife(tiers);
describeFencedLife(tiers);
