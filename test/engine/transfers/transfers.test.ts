import { HostLane } from '../../../src/index.js';
import { describeTierLife } from './tier-life.js';

describeTierLife({
  executor: { defer: (act) => setImmediate(act) },
  place: 'host',
  makeLane: (queue, source, target) => {
    return new HostLane(queue, source, target, { threads: 2, pieceBytes: 128 });
  },
});
