import type { WorkerMethods } from '../../../src/engine/workers/worker-methods.js';
import { Workers } from '../../../src/engine/workers/workers.js';
import type { ConnectorOutput, WorkerStep } from '../../../src/scheduler/connector/connector.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { Auditor } from '../audit/auditor.js';
import type { ReportFacts, TransferFacts } from '../audit/facts.js';
import type { Text } from '../shared/text.js';
import type { SimConnector } from './connector.js';
import type { Fabric, Job } from './fabric.js';
import type { Memory } from './memory.js';
import { loaded, stored } from './targets.js';

/** Decides when a transfer runs, which of its blocks it leaves wrong (by index), and whether it fails as a whole. */
export type Timing = (job: {
  direction: 'load' | 'store';
  handle: number;
  child: number;
  rank: number;
  numBlocks: number;
}) => { startAt: number; endAt: number; bad: ReadonlySet<number>; fails: boolean; verdict?: Verdict };

/** The way in which the failure of a load is reported that a step waits for. */
interface Verdict {
  /** With the next report, while its step is in flight; else with its step. */
  isEarly: boolean;
  /** The report names the request of a block. */
  isNamed: boolean;
}

/** The failed part of a load that a step waits for. */
interface SyncFailure {
  step: number;
  isEarly: boolean;
  invalid: TransferFacts['invalid'];
  failed: readonly ReportFacts[];
}

/** The part of a world that its transfers touch. */
interface Surroundings {
  readonly scheduler: Scheduler;
  readonly auditor: Auditor;
  readonly fabric: Fabric;
  readonly connector: SimConnector | null;
  readonly memory: Memory;
  readonly timing: Timing;
  text(handle: number): Text;
  name(handle: number): string;
}

/**
 * Carries out what the connector has decided: submits loads and stores to the fabric, and turns
 * reports into the scheduler's form.
 */
export class Transfers {
  readonly #world: Surroundings;
  /** The failures to report of the loads that steps wait for. */
  #syncFailures: SyncFailure[] = [];
  /** Whether reports of loads name the step that began them. */
  readonly #stamps: boolean;
  readonly #numRanks: number;
  /** The engine's calls of its workers: they name the step behind which a load may write. */
  readonly #workers: Workers;
  #notBefore = -1;

  constructor(world: Surroundings, numRanks: number, stamps: boolean) {
    this.#world = world;
    this.#numRanks = numRanks;
    this.#stamps = stamps;
    const startLoads = (_metadata: unknown, { notBefore }: WorkerStep): void => {
      this.#notBefore = notBefore;
    };
    const worker = { startLoads, getFinished: () => null } as unknown as WorkerMethods;
    this.#workers = new Workers(world.scheduler, [worker], (_rank, method, error) => {
      throw new Error(`the world's worker failed in ${method}`, { cause: error });
    });
  }

  /**
   * Submits the loads that a plan began.
   * @returns the loads that the step waits for, to be called before it runs
   */
  dispatchLoads(plan: Plan): (() => void)[] {
    this.#workers.begin(plan, true);
    const { step } = plan;
    const notBefore = this.#notBefore;
    if (this.#world.connector === null) return [];
    const loads = this.#world.connector.loads;
    this.#world.connector.loads = [];
    const sync: (() => void)[] = [];
    for (const { handle, child, async, from, to } of loads) {
      const held = this.#world.auditor.sights.turns.of(handle);
      const holding = { ...held, blocks: held.blocks.slice(), turns: held.turns.slice() };
      const ranks = this.#world.auditor.ledger.rules.reporters?.[child] ?? [];
      const shape = { direction: 'load' as const, handle, child };
      const targets = loaded(this.#world.auditor.ledger.rules.groups, holding, from, to);
      const common = {
        ...shape,
        ...{ holding, targets },
        text: this.#world.text(handle),
        from,
        to,
        fenced: false,
        pinned: null,
      };
      if (!async) {
        sync.push(() => this.#loadNow(common, step));
        continue;
      }
      for (const rank of ranks) {
        const timing = this.#world.timing({ ...shape, rank, numBlocks: targets.length });
        const bits = this.#bitsOf(ranks, rank);
        this.#world.fabric.submit({ ...common, rank, ranks: bits, step, notBefore, ...timing });
      }
    }
    return sync;
  }

  /** The ranks whose memory a declared rank moves, as bits: its own, and for the first rank also those that report nothing. */
  #bitsOf(declared: readonly number[], rank: number): number {
    let bits = 2 ** rank;
    for (let other = 0; other < this.#numRanks; other++) {
      if (rank === declared[0] && !declared.includes(other)) bits += 2 ** other;
    }
    return bits;
  }

  /** A load that the step itself waits for. */
  #loadNow(
    load: Omit<
      Job,
      'id' | 'done' | 'rank' | 'ranks' | 'step' | 'notBefore' | 'startAt' | 'endAt' | 'bad' | 'fails'
    >,
    step: number,
  ): void {
    const { handle, child, holding, targets, from, to } = load;
    const timing = this.#world.timing({ ...load, rank: 0, numBlocks: targets.length });
    const { bad, fails, verdict: { isEarly, isNamed } = { isEarly: false, isNamed: true } } = timing;
    for (const [i, target] of targets.entries())
      this.#world.memory.load(fails || bad.has(i) ? null : load.text, holding.name, target, from, to);
    const invalid = [...bad].map((index) => {
      const { block } = targets[index];
      return { block, handle: isNamed ? handle : undefined, child };
    });
    const [rank] = this.#world.auditor.ledger.rules.reporters?.[child] ?? [0];
    const report = this.#stamps ? { handle, child, rank, step } : { handle, child, rank };
    // Without a step it would be about the oldest load of the request.
    this.#syncFailures.push({
      step,
      isEarly: isEarly && !(fails && !this.#stamps),
      invalid,
      failed: fails ? [report] : [],
    });
  }

  /**
   * Reports, with the failures of the loads that steps waited for: those of this step, and early
   * ones.
   * @param step -1 = none is updated
   */
  withSyncFailures(step: number, facts: TransferFacts): TransferFacts {
    const said = this.#syncFailures.filter((failure) => failure.step === step || failure.isEarly);
    if (said.length === 0) return facts;
    this.#syncFailures = this.#syncFailures.filter((failure) => !said.includes(failure));
    const invalid = said.flatMap((failure) => failure.invalid);
    const failed = said.flatMap((failure) => failure.failed);
    return { ...facts, invalid: [...invalid, ...facts.invalid], failed: [...failed, ...facts.failed] };
  }

  /** Submits the stores that the requests which ended in this call began. */
  submitStores(): void {
    if (this.#world.connector === null || this.#world.connector.stores.length === 0) return;
    const { protection, reporters } = this.#world.connector;
    const stores = this.#world.connector.stores;
    this.#world.connector.stores = [];
    const { groups } = this.#world.auditor.ledger.rules;
    for (const { handle, children, rows } of stores) {
      const { turns: seen } = this.#world.auditor.sights;
      const turnOf = (block: number): number => (protection === 'own' ? seen.turnOf(handle, block) : 0);
      const rowTurns = rows.map((row) => row.map(turnOf));
      const targets = stored(groups, { rows, rowTurns });
      const blocks = targets.map(({ block }) => block);
      const holding = {
        name: this.#world.name(handle),
        ...{ rows, rowTurns, blocks, turns: targets.map(({ turn }) => turn) },
        kept: new Map<number, number>(),
      };
      const to = Math.max(...rows.map((row, g) => row.length * groups[g].size));
      const own = protection === 'own';
      const { uses } = this.#world.auditor.ledger.account(handle);
      const common = {
        direction: 'store' as const,
        handle,
        ...{ holding, targets },
        text: this.#world.text(handle),
        from: 0,
        to,
      };
      const rest = {
        step: -1,
        notBefore: -1,
        fenced: protection === 'fence',
        pinned: protection === 'pin' ? Int32Array.from(blocks) : null,
      };
      for (const child of own ? new Set(children) : children.slice(0, 1)) {
        for (const rank of own ? reporters[child] : [0]) {
          // A rank that has reported before that it had nothing to send does not begin now.
          if (own && !uses.has(`store:${child}:${rank}`)) continue;
          const timing = this.#world.timing({ ...common, child, rank, numBlocks: blocks.length });
          const none = { ranks: 0, bad: new Set<number>(), fails: false };
          this.#world.fabric.submit({ ...common, ...rest, child, rank, ...timing, ...none });
        }
      }
    }
  }

  /** Reports as the scheduler takes them; undefined if there are none. */
  output(facts: TransferFacts): ConnectorOutput | undefined {
    const { received, sent, failed, invalid, lost } = facts;
    const ofDevice = lost.length > 0 ? { lostBlocks: lost } : undefined;
    if (this.#world.connector === null) return ofDevice;
    if (received.length + sent.length + failed.length + invalid.length === 0) return ofDevice;
    return {
      ...ofDevice,
      ...(received.length > 0 ? { finishedReceiving: received } : {}),
      ...(sent.length > 0 ? { finishedSending: sent } : {}),
      ...(failed.length > 0 ? { failedReceiving: failed } : {}),
      ...(invalid.length > 0
        ? {
            invalidBlocks: invalid.map(({ block, handle, child }) =>
              handle === undefined ? { block, child } : { block, handle, child },
            ),
          }
        : {}),
    };
  }
}
