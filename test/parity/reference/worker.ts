import type { ConnectorCall, KvReport, TraceConfig } from '../trace.js';
import { NULL_BLOCK } from './kv/pool.js';
import type { Random } from './random.js';
import type { ConnectorRecipe } from './recipe.js';
import type { ReferenceRequest } from './request.js';
import { groupsOf } from './room.js';
import type { ReferenceScheduler } from './scheduler.js';

/** A load that has begun. */
interface Load {
  request: ReferenceRequest;
  /** The blocks that it fills. */
  blocks: number[];
  /** The step that began it. */
  step: number;
  isAsync: boolean;
  /** Updates until it is reported; a failure is reported no later. */
  left: number;
  fails: boolean;
}

/**
 * Draws the worker side of the connector of a generated trace: when transfers end, and which fail.
 */
export class Worker {
  readonly #recipe: ConnectorRecipe;
  readonly #random: Random;
  /** By group. */
  readonly #blockSizes: readonly number[];
  readonly #endsFailed: boolean;
  readonly #isPipelined: boolean;
  #subject: ReferenceScheduler | null = null;
  #loads: Load[] = [];
  #sends: { id: string; left: number }[] = [];

  constructor(recipe: ConnectorRecipe, random: Random, config: TraceConfig) {
    this.#recipe = recipe;
    this.#random = random;
    this.#blockSizes = groupsOf(config).map(({ block_size }) => block_size);
    this.#endsFailed = config.kv_load_failure_policy === 'fail';
    this.#isPipelined = config.async_scheduling;
  }

  /** Whether transfers are still to be reported. */
  get isBusy(): boolean {
    return this.#sends.length > 0 || this.#loads.some(({ isAsync }) => isAsync);
  }

  /** Notes the orders of a scheduler to the connector in a step. */
  watch(calls: readonly ConnectorCall[], step: number, subject: ReferenceScheduler): void {
    this.#subject = subject;
    const locals = new Map<string, { local: number; isAsync: boolean }>();
    for (const call of calls) {
      if (call[0] === 'match') locals.set(call[1], { local: call[2], isAsync: call[4] === 1 });
      if (call[0] === 'finished' && call[3] === 1) this.#send(call[1]);
      const match = locals.get(call[1]);
      if (call[0] === 'alloc' && call[2] > 0 && match) {
        this.#load(subject.get(call[1]) as ReferenceRequest, match.local, call[2], step, match.isAsync);
      }
    }
  }

  /**
   * The report with the update of the batch of a step; null if there is none.
   * @param mayFail whether a failure may stand in this update
   * @param batch ids of its requests
   */
  report(step: number, mayFail: boolean, batch: readonly string[]): KvReport | null {
    const invalid: number[] = [];
    for (const load of this.#loads) {
      // vLLM ends several of them in no particular order.
      if (mayFail && !(load.isAsync && this.#endsFailed && invalid.length > 0)) {
        invalid.push(...this.#failure(load, step, batch));
      }
    }
    const due = <T extends { left: number }>(transfers: readonly T[]) =>
      transfers.filter((transfer) => --transfer.left < 0);
    // A load whose failure could not be reported yet goes on.
    const received = due(this.#loads.filter(({ isAsync, fails }) => isAsync && !fails));
    const sent = due(this.#sends);
    this.#loads = this.#loads.filter((load) => (load.isAsync ? !received.includes(load) : load.step > step));
    this.#sends = this.#sends.filter((send) => !sent.includes(send));
    if (received.length + sent.length + invalid.length === 0) return null;
    const recv = this.#shuffled(received.map(({ request }) => request.id));
    const send = this.#shuffled(sent.map(({ id }) => id));
    return { recv, send, ...(invalid.length > 0 ? { invalid: [...new Set(invalid)] } : {}) };
  }

  #send(id: string): void {
    this.#sends.push({ id, left: this.#random.integer(0, this.#recipe.longestSend) });
  }

  #load(request: ReferenceRequest, local: number, external: number, step: number, isAsync: boolean): void {
    const blocks = this.#blockSizes.flatMap((size, group) => {
      const places = request.rows[group].blocks.slice(Math.floor(local / size));
      const count = Math.ceil((local + external) / size) - Math.floor(local / size);
      return places.slice(0, count).filter((block) => block !== NULL_BLOCK);
    });
    const { longestLoad, failRate, failsSync } = this.#recipe;
    const fails = (isAsync || failsSync) && this.#random.chance(failRate);
    const left = this.#random.integer(0, longestLoad);
    this.#loads.push({ request, blocks, step, isAsync, left, fails });
  }

  /** The blocks of a load that turn out to have failed in the update of a step. */
  #failure(load: Load, step: number, batch: readonly string[]): number[] {
    const { blocks, isAsync, left } = load;
    if (!load.fails || blocks.length === 0) return [];
    const isDue = isAsync ? left === 0 || this.#random.chance(0.3) : load.step === step;
    if (!isDue) return [];
    load.fails = isAsync && left > 0 && this.#random.chance(0.2);
    if (!this.#mayName(load) || this.#isMisjudged(load, batch)) return [];
    return this.#random.chance(0.7)
      ? [this.#random.pick(blocks)]
      : blocks.filter(() => this.#random.chance(0.5));
  }

  /** Whether the blocks of a load that failed can still be told from those of others. */
  #mayName({ request, blocks, isAsync }: Load): boolean {
    // A synchronous one fails in the step that began it: only with another step in between can its blocks have gone on.
    if (!isAsync && !this.#isPipelined) return true;
    // For a request that ended meanwhile, only the blocks that the load still writes.
    const isLive = request.status === (isAsync ? 'WAITING_FOR_REMOTE_KVS' : 'RUNNING');
    return (
      (isLive || isAsync) && blocks.every((block) => request.rows.some((row) => row.blocks.includes(block)))
    );
  }

  /**
   * Whether vLLM draws wrong conclusions from the failure of an asynchronous load. It subtracts the
   * tokens of the batch from the loaded tokens, though the request lost them when it was preempted.
   * Then it does not see the failure. And with a step in flight, a request that runs on the block
   * keeps the tokens that the step sampled. A prompt of one token can be loaded into a block that
   * was published before. And a window may have released the block into which a step in flight had
   * loaded. Then nobody can tell which of the two loads has failed: vLLM takes it for the later
   * one.
   */
  #isMisjudged({ request, blocks, isAsync }: Load, batch: readonly string[]): boolean {
    if (!isAsync) return false;
    if (batch.includes(request.id)) return true;
    const others = this.#loads.filter((load) => load.request !== request).flatMap((load) => load.blocks);
    if (blocks.some((block) => others.includes(block))) return true;
    const isRead = (block: number) =>
      this.#subject
        ?.inspect()
        .requests.some(
          ({ status, rows }) => status === 'RUNNING' && rows.some((row) => row.blocks.includes(block)),
        );
    return this.#isPipelined && !this.#endsFailed && blocks.some(isRead);
  }

  #shuffled<T>(values: T[]): T[] {
    return values
      .map((value) => ({ value, key: this.#random.next() }))
      .sort((a, b) => a.key - b.key)
      .map(({ value }) => value);
  }
}
