import type {
  ConnectorOutput,
  InvalidBlock,
  TransferReport,
} from '../../../../src/scheduler/connector/connector.js';
import type { Rng } from '../../shared/rng.js';
import type { Stage } from '../stage.js';
import type { SimConnector } from './connector.js';
import type { LoadPlan } from './transfer-plans.js';

const NEVER = Number.POSITIVE_INFINITY;
const KEPT_REPORTS = 40;
const LISTS = { received: 'finishedReceiving', sent: 'finishedSending', failed: 'failedReceiving' } as const;

type Kind = keyof typeof LISTS | 'invalid';

/** A report of one rank, on its way. */
interface Report {
  readonly kind: Kind;
  readonly report: TransferReport | (InvalidBlock & { child?: number });
  readonly due: number;
  /** The verdict on a synchronous load: it has to come with the step that read it. */
  readonly isVerdict: boolean;
}

/**
 * The reports of the worker of one rank, and their faults: late, lost, repeated, stale, about the
 * wrong child.
 */
export class Reports {
  readonly #stage: Stage;
  readonly #connector: SimConnector;
  readonly #rng: Rng;
  #waiting: Report[] = [];
  /** Reports that were delivered, to be repeated. */
  readonly #past: Report[] = [];

  /** @param rng the dice of the worker */
  constructor(stage: Stage, connector: SimConnector, rng: Rng) {
    this.#stage = stage;
    this.#connector = connector;
    this.#rng = rng;
  }

  get length(): number {
    return this.#waiting.length;
  }

  /** A child has nothing left to send of a request that has finished. */
  sent(handle: number, child: number): void {
    this.#queue('sent', { handle, child }, false);
  }

  /**
   * A load has ended.
   * @param bad blocks that did not come, by index
   * @param failsWhole it failed as a whole
   * @param isVerdict the step waits for it
   */
  loaded(load: LoadPlan, bad: ReadonlySet<number>, failsWhole: boolean, isVerdict: boolean): void {
    const { handle, child, step, blocks } = load;
    const stamped = (this.#stage.setup.tier?.isStamped ?? true) || isVerdict ? { step } : {};
    const due = isVerdict ? 0 : this.#delay();
    if (failsWhole) this.#queue('failed', { handle, child, ...stamped }, isVerdict, due);
    else {
      for (const index of bad) {
        const isNamed = !this.#stage.strikes('blockUnnamed', this.#rng);
        const whose = isNamed ? { handle, child } : { child };
        this.#queue('invalid', { block: blocks[index], ...whose }, isVerdict, due);
      }
    }
    this.#queue('received', { handle, child, ...stamped }, isVerdict, due);
  }

  /**
   * Delivers the reports that are due, and reports that a correct worker would not send.
   * @param running loads that have not ended
   * @param recent loads that a failed call may cost
   */
  deliver(running: readonly LoadPlan[], recent: Iterable<LoadPlan>): ConnectorOutput | null {
    const due = this.#waiting.filter((each) => each.due <= this.#stage.now);
    if (this.#fails(due, recent)) return this.#nonsense();
    this.#waiting = this.#waiting.filter((each) => each.due > this.#stage.now);
    for (const each of due) {
      this.#blameUnnamed(each);
      this.#repeat(each);
    }
    return this.#outputOf([...due, ...this.#foreign(running)]);
  }

  /**
   * Forgets the reports of a child, or of all, that a fence makes wrong. A late report of a fenced
   * load looks like a report of the next load, unless it names its step.
   */
  fence(isMeant: (of: { child: number }) => boolean): void {
    this.#waiting = this.#waiting.filter(
      ({ kind, report, isVerdict }) =>
        kind === 'sent' || isVerdict || 'step' in report || !isMeant({ child: report.child ?? 0 }),
    );
  }

  /** Nothing is lost or late any more. */
  calm(): void {
    this.#waiting = this.#waiting.map((each) => ({ ...each, due: 0 }));
  }

  #queue(kind: Kind, report: Report['report'], isVerdict: boolean, due = this.#delay()): void {
    this.#waiting.push({ kind, report, due, isVerdict });
  }

  #delay(): number {
    const { now } = this.#stage;
    if (this.#stage.strikes('lost', this.#rng)) return NEVER;
    return this.#stage.strikes('late', this.#rng) ? now + this.#rng.below(300) : now + this.#rng.below(4);
  }

  /**
   * A report may name a block and no request. It is about the request that loads the block when the
   * report comes, perhaps the next one.
   */
  #blameUnnamed({ kind, report }: Report): void {
    if (kind !== 'invalid' || 'handle' in report) return;
    const { block, child = 0 } = report as InvalidBlock;
    for (const handle of this.#connector.loadersOf(block, child)) this.#stage.blame(handle, 'load');
  }

  /** A report that was delivered comes again, at once or much later. */
  #repeat(each: Report): void {
    if (each.kind === 'invalid') return;
    const isStamped = each.kind === 'sent' || 'step' in each.report;
    if (!isStamped) return;
    this.#past.push(each);
    if (this.#past.length > KEPT_REPORTS) this.#past.shift();
    if (!this.#stage.strikes('duplicate', this.#rng)) return;
    this.#excuseReports();
    this.#waiting.push({ ...each, due: this.#stage.now + this.#rng.below(60), isVerdict: false });
  }

  /** Reports that a correct worker would not make. */
  #foreign(running: readonly LoadPlan[]): Report[] {
    const stage = this.#stage;
    const rng = this.#rng;
    const made: Report[] = [];
    const queued = { due: 0, isVerdict: false };
    if (this.#past.length > 0 && stage.strikes('stale', rng))
      made.push({ ...rng.pick(this.#past), ...queued });
    const others = this.#connector.numChildren > 1;
    if (others && running.length > 0 && stage.strikes('wrongChild', rng)) {
      const { handle, child, step } = rng.pick(running);
      made.push({
        kind: rng.pick(['received', 'failed']),
        report: { handle, child: 1 - child, step },
        ...queued,
      });
    }
    if (stage.strikes('foreignBlock', rng)) {
      const block = rng.pick([0, stage.setup.engine.numBlocks, 2 ** 31]);
      made.push({ kind: 'invalid', report: { block, child: 0 }, ...queued });
      if (others && running.length > 0) {
        const { handle, child, blocks } = rng.pick(running);
        // A load in front of a window of one token fills no block.
        if (blocks.length > 0)
          made.push({ kind: 'invalid', report: { block: blocks[0], handle, child: 1 - child }, ...queued });
      }
    }
    if (made.length > 0) this.#excuseReports();
    return made;
  }

  #excuseReports(): void {
    for (const reason of ['stale-handle', 'unknown-completion', 'duplicate-completion', 'live-completion'])
      this.#stage.excused.add(reason);
    for (const reason of ['wrong-owner', 'wrong-direction', 'invalid-block', 'reassigned-block'])
      this.#stage.excused.add(reason);
  }

  #outputOf(all: readonly Report[]): ConnectorOutput | null {
    if (all.length === 0) return null;
    const output: Partial<Record<string, unknown[]>> = {};
    for (const { kind, report } of all) {
      const name = kind === 'invalid' ? 'invalidBlocks' : LISTS[kind];
      output[name] = [...(output[name] ?? []), report];
    }
    return output as ConnectorOutput;
  }

  /** Whether this call fails. The reports that were due come with the next call. */
  #fails(due: readonly Report[], recent: Iterable<LoadPlan>): boolean {
    if (due.length === 0 || !this.#stage.strikes('reportsThrow', this.#rng)) return false;
    // A verdict that comes late comes when nobody waits for it any more.
    for (const { handle, async } of recent) if (!async) this.#stage.blame(handle, 'load');
    this.#excuseReports();
    return true;
  }

  #nonsense(): never {
    const made: unknown = this.#rng.pick([7, { finishedReceiving: 7 }, Promise.resolve(null), null]);
    if (made === null) throw new Error('planted in getFinished');
    return made as never;
  }
}
