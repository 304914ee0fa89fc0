// A driver with a connector whose loads land when the test says so.
import type {
  BlockLists,
  ConnectorOutput,
  Finished,
  HandOver,
  Match,
  TransferReport,
} from '../../src/connector.js';
import type { Plan, Request, RequestInput, SchedulerOptions } from '../../src/index.js';
import type { WithRules } from '../../src/scheduler/options/single-rules.js';
import type { FinishReason } from '../../src/scheduler/request/status.js';
import { type Script, ScriptedConnector } from '../support/connector/scripted-connector.js';
import { Driver, type DriverOptions } from '../support/driver.js';

/** A load that the connector was asked for: positions `from` to `to` of the request, into its blocks. */
export interface RemoteLoad {
  handle: number;
  id: string;
  blocks: Int32Array;
  from: number;
  to: number;
  async: boolean;
  child: number;
  /** The step whose metadata begins it; -1 until then. */
  step: number;
}

/** A scripted connector that keeps its load orders for the test, which plays the workers. */
export class RemoteConnector extends ScriptedConnector {
  /** Every load so far, oldest first. */
  readonly loads: RemoteLoad[] = [];
  /** Called with the loads that the metadata of a plan begins. */
  onBegin: (loads: readonly RemoteLoad[]) => void = () => {};
  /** Answers to give instead of the scripted ones, whatever they are. */
  readonly instead: { match?: (request: Request) => unknown; finished?: (request: Request) => unknown } = {};
  readonly #matches = new Map<number, Match & { local: number }>();

  override getNumNewMatchedTokens(request: Request, local: number): Match {
    const scripted = super.getNumNewMatchedTokens(request, local);
    const match = this.instead.match === undefined ? scripted : (this.instead.match(request) as Match);
    this.#matches.set(request.handle, { ...match, local });
    return match;
  }

  override updateStateAfterAlloc(request: Request, lists: BlockLists, numExternalTokens: number): void {
    super.updateStateAfterAlloc(request, lists, numExternalTokens);
    const match = this.#matches.get(request.handle);
    if (numExternalTokens === 0 || match === undefined) return;
    const { id, handle } = request;
    const { local, async, child = 0 } = match;
    this.loads.push({
      handle,
      id,
      blocks: lists[0].slice(),
      from: local,
      to: local + numExternalTokens,
      async,
      child,
      step: -1,
    });
  }

  override buildMetadata(plan: Plan): unknown {
    const metadata = super.buildMetadata(plan);
    const begun = this.loads.filter(({ step }) => step < 0);
    for (const load of begun) load.step = plan.step;
    this.onBegin(begun);
    return { ...(metadata as object), loads: begun };
  }

  override requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished {
    const scripted = super.requestFinished(request, reason, handOver);
    return this.instead.finished === undefined ? scripted : (this.instead.finished(request) as Finished);
  }

  override hasPendingWork(): boolean {
    this.during('pending', null);
    return super.hasPendingWork();
  }

  /** The last load of a request. */
  loadOf(handle: number): RemoteLoad {
    const load = this.loads.findLast((each) => each.handle === handle);
    if (load === undefined) throw new Error(`handle ${handle} was never to be loaded`);
    return load;
  }
}

export interface RemoteOptions {
  reporters?: readonly (readonly number[])[];
  protection?: 'own' | 'pin' | 'fence';
}

/**
 * A driver with a remote connector over the fake model's memory. Synchronous loads are there when
 * the step is executed, except blocks in `broken`. Asynchronous loads are there when the test
 * completes them.
 */
export class RemoteDriver extends Driver {
  readonly connector: RemoteConnector;
  /** Places among the blocks of a request where loads load nothing. */
  broken: readonly number[] = [];

  constructor(
    scripts: Record<string, Script>,
    options: Partial<WithRules<SchedulerOptions>> & RemoteOptions = {},
    driver: DriverOptions = {},
  ) {
    const { reporters, protection, ...rest } = options;
    const connector = new RemoteConnector(scripts, {
      ...(reporters && { reporters }),
      ...(protection && { protection }),
    });
    super({ connector, ...rest }, driver);
    this.connector = connector;
    connector.onBegin = (loads) => {
      for (const load of loads) if (!load.async) this.#write(load);
    };
  }

  /** Adds a request and schedules, so that its load has begun if it fits; nothing is to be computed besides. */
  loading(input: Partial<RequestInput> & { id: string }): number {
    const handle = this.add(input);
    this.empty();
    return handle;
  }

  /** An empty step. */
  empty(): Plan {
    const plan = this.schedule();
    if (plan.totalTokens > 0) throw new Error(`${plan.totalTokens} tokens were scheduled`);
    this.update(plan);
    return plan;
  }

  /** The KV of a request's last load is in its blocks now; nobody has reported it yet. */
  land(handle: number): void {
    this.#write(this.connector.loadOf(handle));
  }

  /** The load landed and is reported, by all of these ranks. */
  received(handle: number, ...ranks: (number | TransferReport)[]): void {
    this.land(handle);
    this.say({ finishedReceiving: reports(handle, ranks) });
  }

  sent(handle: number, ...ranks: (number | TransferReport)[]): void {
    this.say({ finishedSending: reports(handle, ranks) });
  }

  /** Passes on a report of workers while there is no step, and checks all invariants after it. */
  say(output: ConnectorOutput): void {
    this.scheduler.updateTransfers(output);
    this.scheduler.verify();
  }

  get free(): number {
    return this.scheduler.core.freeBlocks;
  }

  get anomalies(): Record<string, number> {
    return this.scheduler.stats().anomalies;
  }

  blocks(handle: number): number[] {
    return [...this.scheduler.core.blocks(this.request(handle).slot)];
  }

  /** Ids of the entries of a plan. */
  ids(plan: Plan): string[] {
    return plan.requests.slice(0, plan.numRequests).map(({ id }) => id);
  }

  #write({ handle, blocks, from, to }: RemoteLoad): void {
    const { blockSize } = this.scheduler.config;
    for (let at = from; at < to; ) {
      const next = Math.min(to, (Math.floor(at / blockSize) + 1) * blockSize);
      if (!this.broken.includes(Math.floor(at / blockSize))) this.model.load(handle, blocks, at, next);
      at = next;
    }
  }
}

function reports(handle: number, ranks: (number | TransferReport)[]): TransferReport[] {
  const given = ranks.length === 0 ? [0] : ranks;
  return given.map((rank) => (typeof rank === 'number' ? { handle, rank } : { ...rank, handle }));
}
