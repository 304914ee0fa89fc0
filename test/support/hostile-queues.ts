// Gets hold of the scheduler's private queues, for tests of adapters that park requests.
import type { Request } from '../../src/scheduler/request/request.js';
import { Queues } from '../../src/scheduler/state/queues.js';
import type { Driver } from './driver.js';

/**
 * The objects that an adapter that parks and restores requests can reach: the scheduler's own
 * queues, and stale objects. The queues are private, so they are caught while a request is added to
 * them.
 */
export function seizeQueues(driver: Driver): Queues {
  const { pushWaiting } = Queues.prototype;
  let seized: Queues | undefined;
  Queues.prototype.pushWaiting = function (this: Queues, request: Request) {
    seized = this;
    pushWaiting.call(this, request);
  };
  try {
    driver.add({ id: 'bait' });
    driver.abort('bait');
  } finally {
    Queues.prototype.pushWaiting = pushWaiting;
  }
  return seized as Queues;
}
