import type { Plan } from '../../../src/scheduler/plan/plan.js';
import type { ReportFacts, TransferFacts } from '../audit/facts.js';
import { plainly } from '../shared/asked.js';
import { Text } from '../shared/text.js';
import { World, type WorldOptions } from './world.js';

/** The connector's behaviour for one request, by external id; an absent field means no. */
export interface Behaviour {
  /** Tokens that it has, from the first on. */
  has?: number;
  sync?: boolean;
  child?: number;
  /** Children that want the blocks when it ended, also by an abort. */
  sends?: readonly number[];
  /** The request must not end without blocks to send. */
  delivers?: boolean;
  /** Indexes of blocks that its load leaves wrong. */
  bad?: readonly number[];
}

export interface ScriptOptions {
  scheduler?: Partial<WorldOptions['scheduler']>;
  reporters?: number[][];
  behaviours?: Record<string, Behaviour>;
}

const NOTHING: TransferFacts = { received: [], sent: [], failed: [], invalid: [], lost: [] };

/**
 * A run that is written down instead of drawn. By default it has blocks of 16 tokens, and one child
 * with two ranks. The auditor looks after every line, and transfers touch memory when their report
 * is written down.
 */
export class Script {
  readonly world: World;
  readonly #behaviours: Record<string, Behaviour>;
  readonly #handles = new Map<string, number>();

  constructor({ scheduler = {}, reporters = [[0, 1]], behaviours = {} }: ScriptOptions = {}) {
    this.#behaviours = behaviours;
    this.world = new World({
      scheduler: {
        ...{ numBlocks: 33, blockSize: 16, maxNumSeqs: 8, maxNumBatchedTokens: 512, maxModelLen: 512 },
        ...{ hashSeed: 7, deadlines: false, ...scheduler },
      },
      connector: { protection: 'own', reporters },
      decisions: {
        match: (handle, numTokens, numLocal) => {
          const { has = 0, sync = false, child = 0 } = this.#of(handle);
          const count = Math.max(0, Math.min(has, numTokens) - numLocal);
          return { numTokens: count, async: count > 0 && !sync, child };
        },
        finished: (handle, _reason, numBlocks) => (numBlocks > 0 ? (this.#of(handle).sends ?? null) : null),
        delivers: (handle) => this.#of(handle).delivers === true,
        mustDeliver: false,
        called: () => {},
      },
    });
    this.world.timing = ({ handle }) => {
      const bad = new Set(this.#of(handle).bad ?? []);
      return { startAt: Number.MAX_SAFE_INTEGER, endAt: Number.MAX_SAFE_INTEGER, bad, fails: false };
    };
  }

  #of(handle: number): Behaviour {
    const id = this.world.auditor.ledger.accounts.get(handle)?.asked.id ?? '';
    return this.#behaviours[id] ?? {};
  }

  /**
   * Equal families begin alike.
   * @param stopsAt the token at this position ends it
   * @returns the handle
   */
  add(id: string, length: number, maxTokens: number, family = id.charCodeAt(0), stopsAt = -1): number {
    const prompt = Int32Array.from({ length }, (_, i) => family * 1000 + i);
    const stopTokenIds = stopsAt < 0 ? [] : [new Text(prompt, 0).token(stopsAt)];
    const minTokens = stopsAt < 0 ? maxTokens : 0;
    const asked = { ...plainly(id, prompt, maxTokens), minTokens, stopTokenIds };
    const handle = this.world.add(asked);
    if (typeof handle === 'string') throw new Error(`${id} was refused: ${handle}`);
    this.#handles.set(id, handle);
    return handle;
  }

  schedule(): Plan {
    return this.world.schedule();
  }

  update(facts: Partial<TransferFacts> = {}): void {
    if (!this.world.update(this.#taken(facts))) throw new Error('there is no step to update');
  }

  report(facts: Partial<TransferFacts>): void {
    this.world.report(this.#taken(facts));
  }

  /** Makes so many steps, one after the other. */
  steps(count: number): void {
    for (let i = 0; i < count; i++) {
      this.schedule();
      this.update();
    }
  }

  abort(...keys: (string | number)[]): void {
    this.world.abort(keys);
  }

  /** Steps until nothing is left to do, and that nothing is left behind. */
  end(): void {
    const { world } = this;
    const { pipelineDepth } = world.scheduler.config;
    for (let i = 0; world.scheduler.hasWork() || world.executor.steps.length > 0; i++) {
      if (i > 500) throw new Error(`still at work: ${JSON.stringify(world.scheduler.stats())}`);
      if (world.executor.steps.length < pipelineDepth) this.schedule();
      world.update();
    }
    world.end();
    world.dispose();
  }

  blocks(handle: number): number[] {
    return this.world.auditor.sights.turns.of(handle).blocks;
  }

  get stats(): ReturnType<World['scheduler']['stats']> {
    return this.world.scheduler.stats();
  }

  /** How often an anomaly was counted. */
  anomaly(reason: string): number {
    return this.stats.anomalies[reason] ?? 0;
  }

  /** How it ended, and null while it has not. */
  reason(handle: number): string | null {
    return this.world.auditor.ledger.account(handle).reason;
  }

  status(handle: number): string | undefined {
    return this.world.scheduler.getByHandle(handle)?.status;
  }

  /** The number of times that the connector got its end. */
  timesFinished(handle: number): number {
    return this.world.auditor.ledger.account(handle).timesFinished;
  }

  /** A reported job has been done; a report of a job that was never begun is a lie. */
  #taken(facts: Partial<TransferFacts>): TransferFacts {
    const all = { ...NOTHING, ...facts };
    const isOf = (reports: readonly ReportFacts[], handle: number, child: number, rank: number): boolean =>
      reports.some((report) => report.handle === handle && report.child === child && report.rank === rank);
    this.world.fabric.finish(({ direction, handle, child, rank }) =>
      isOf(direction === 'load' ? all.received : all.sent, handle, child, rank),
    );
    return all;
  }
}

/** Reports of these ranks of a child. */
export function by(handle: number, ranks: readonly number[], child = 0): ReportFacts[] {
  return ranks.map((rank) => ({ handle, child, rank }));
}
