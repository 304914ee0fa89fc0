import type { WorkerConnector } from '../../../../src/connector.js';
import type { DiskEnd, OffloadOrders, OffloadWorker } from '../../../../src/connectors/offload/index.js';

/**
 * Holds back a worker's reports of its disk, while it is on: the disk's thread answers when it
 * likes.
 */
export class Hold {
  on = true;
  readonly #ended: DiskEnd[] = [];

  readonly wrapWorker = (worker: OffloadWorker): WorkerConnector => ({
    startLoads: (orders, step) => worker.startLoads(orders as OffloadOrders | null, step),
    onStepSettled: worker.onStepSettled.bind(worker),
    shutdown: worker.shutdown.bind(worker),
    getFinished: (finished) => {
      const output = worker.getFinished(finished);
      const { disk, ...rest } = output?.metadata ?? {};
      this.#ended.push(...(disk?.ended ?? []));
      const ended = this.on ? [] : this.#ended.splice(0);
      return {
        ...output,
        metadata: { ...rest, ...((ended.length > 0 || disk?.began) && { disk: { ...disk, ended } }) },
      };
    },
  });
}
