import type { DeviceTables } from '../../core/device-tables.js';
import type { StepTables } from '../../core/tables.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import type { ExecutorPlace } from './executor-place.js';

/** The tables of a plan, on the host or on a GPU. */
export type PlanTables = StepTables | DeviceTables;

/** Gathers the tables of plans on the device where the executor reads them: the host or a GPU. */
export class ExecutorTables {
  readonly #core: Scheduler['core'];
  readonly #where: 'nowhere' | 'host' | 'device';

  /** Allocates the tables on the GPU, once. @throws ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA; then the scheduler is disposed */
  constructor(scheduler: Scheduler, config: { usesTables: boolean; place: ExecutorPlace | null }) {
    this.#core = scheduler.core;
    const onDevice = config.place !== null && this.#core.backend.name === 'cuda';
    this.#where = !config.usesTables ? 'nowhere' : onDevice ? 'device' : 'host';
    if (this.#where !== 'device') return;
    try {
      this.#core.deviceTables();
    } catch (error) {
      scheduler.dispose();
      throw error;
    }
  }

  /** The tables of a plan; null for an executor that uses none. @throws as `Core.gather` and `Core.gatherOnDevice` */
  gather({ frame, numRequests }: Plan): PlanTables | null {
    if (this.#where === 'nowhere') return null;
    if (this.#where === 'host') return this.#core.gather(frame, numRequests);
    return this.#core.gatherOnDevice(frame, numRequests);
  }
}
