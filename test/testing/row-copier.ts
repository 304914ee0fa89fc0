import type {
  BlockReuse,
  Finished,
  KvView,
  Match,
  SchedulerConnector,
  StoreStep,
  WorkerConnector,
  WorkerOutput,
} from '../../src/connector.js';
import { KvLanes } from '../../src/connectors/base/kv-lanes.js';
import { hostArenaFor, type KvMemory } from '../../src/connectors/base/kv-memory.js';
import type { Plan } from '../../src/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../src/testing/index.js';
import { fenceAll } from './fence-all.js';

/** The full blocks of a request behind a step, of all groups. */
interface Full {
  readonly handle: number;
  readonly blocks: Int32Array;
}

/** Copies the blocks of every step away, and loads nothing: the smallest connector that reads blocks of requests that run. */
class RowCopier implements SchedulerConnector<readonly Full[]> {
  readonly protection = 'own';
  #view!: KvView;

  bind(view: KvView): void {
    this.#view = view;
  }

  getNumNewMatchedTokens(): Match {
    return { numTokens: 0, async: false };
  }

  updateStateAfterAlloc(): void {}

  buildMetadata(plan: Plan): readonly Full[] {
    return Array.from({ length: plan.numRequests }, (_, i) => {
      const tokens = plan.numComputedTokens[i] + plan.numScheduledTokens[i];
      const rows = this.#view.blocks(plan.requests[i]);
      const full = rows.flatMap((row, g) => [
        ...row.subarray(0, Math.floor(tokens / this.#view.groups[g].blockSize)),
      ]);
      return { handle: plan.requests[i].handle, blocks: Int32Array.from(full.filter((id) => id !== 0)) };
    });
  }

  requestFinished(): Finished {
    return { delayFree: true };
  }
}

/** Its worker: begins the copies of a step when it was updated, and ends them before their blocks change hands. */
class RowCopierWorker implements WorkerConnector<readonly Full[]> {
  readonly #lanes: KvLanes;
  readonly #reading = new Map<number, Full>();
  readonly #ended = new Set<number>();
  #numJobs = 0;

  constructor(memory: KvMemory, makeLane: ConnectorWorld['makeLane']) {
    this.#lanes = new KvLanes(memory, hostArenaFor(memory.kv, memory.kv.numBlocks), makeLane);
  }

  handlePreemptions(_: unknown, { released, taken }: BlockReuse): void {
    const isTouched = ({ handle, blocks }: Full): boolean =>
      released.includes(handle) || blocks.some((id) => taken.includes(id));
    if ([...this.#reading.values()].some(isTouched)) this.#lanes.fence();
  }

  startStores(metadata: readonly Full[] | undefined, { failed }: StoreStep): void {
    for (const full of metadata ?? []) {
      if (failed.includes(full.handle) || this.#ended.has(full.handle) || full.blocks.length === 0) continue;
      const job = ++this.#numJobs;
      this.#reading.set(job, full);
      this.#lanes.store(full.blocks, full.blocks, () => void this.#reading.delete(job));
    }
  }

  getFinished(finished: readonly number[]): WorkerOutput | null {
    this.#lanes.drain();
    for (const handle of finished) this.#ended.add(handle);
    const reading = new Set([...this.#reading.values()].map(({ handle }) => handle));
    const sent = [...this.#ended].filter((handle) => !reading.has(handle));
    for (const handle of sent) this.#ended.delete(handle);
    return sent.length === 0 ? null : { finishedSending: sent.map((handle) => ({ handle })) };
  }

  fence(): void {
    this.#lanes.fence();
  }

  shutdown(): void {
    this.#lanes.dispose();
  }
}

/** The copier, as the conformance suite makes it. */
export function makeRowCopier({ memories, makeLane }: ConnectorWorld): ConnectorUnderTest {
  const workers = memories.map((memory) => new RowCopierWorker(memory, makeLane));
  return { connector: new RowCopier(), workers, fence: () => fenceAll(workers) };
}
