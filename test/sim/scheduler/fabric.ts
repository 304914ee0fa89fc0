import type { ReportFacts, TransferFacts } from '../audit/facts.js';
import type { Held, Turns } from '../audit/turns.js';
import type { Text } from '../shared/text.js';
import type { Memory } from './memory.js';
import type { Target } from './targets.js';

/** A transfer of one rank of one child. */
export interface Job {
  readonly id: number;
  readonly direction: 'load' | 'store';
  readonly handle: number;
  readonly child: number;
  readonly rank: number;
  /** The ranks whose memory it moves, as bits: its own rank, and for the first rank also those that report nothing. */
  readonly ranks: number;
  /** The blocks as they were handed to the request. */
  readonly holding: Held;
  readonly text: Text;
  /** The blocks that it moves. */
  readonly targets: readonly Target[];
  /** Positions [from, to). */
  readonly from: number;
  readonly to: number;
  /** The step that began it. */
  readonly step: number;
  /** The job may touch memory once every step up to this one was executed. */
  readonly notBefore: number;
  /** On the simulation's clock. */
  startAt: number;
  endAt: number;
  /** How many of its two parts are done. */
  done: 0 | 1 | 2;
  /** Indexes of the targets that it leaves wrong. */
  readonly bad: ReadonlySet<number>;
  /** The job fails as a whole: nothing is loaded, and no block is named. */
  readonly fails: boolean;
  /** Its blocks are free as far as the scheduler knows; it is flushed before they are reused. */
  readonly fenced: boolean;
  /** Its blocks were pinned for it. */
  readonly pinned: Int32Array | null;
}

/** A report on its way to the scheduler. */
interface Letter {
  at: number;
  kind: 'received' | 'sent' | 'failed' | 'invalid';
  report: ReportFacts;
  /** For `invalid`: its handle may be left out. */
  block: number;
  named: boolean;
  /**
   * A report that has to be delivered before this one: the report that the job failed comes before
   * its end.
   */
  after: Letter | null;
  delivered: boolean;
  /** A report of no job: it must not be taken for a report that is still under way. */
  foreign: boolean;
}

export interface FabricHooks {
  isSettled(step: number): boolean;
  /** How long after its end a job is reported; Infinity = lost for now. */
  delay(job: Job): number;
  wrong(what: string): void;
  /** Whether a block that failed is reported with its request. */
  isNamed(): boolean;
  /** Whether reports of loads name the step that began them. */
  readonly isStamped: boolean;
  /** A job is over. */
  ended(job: Job): void;
}

/**
 * The transfers of KV blocks: jobs with a start, two windows in which they touch memory, an end,
 * and a report that travels. The device's memory shows what they do; reports are late, in any
 * order, and whatever else `post` adds to them.
 */
export class Fabric {
  readonly #memory: Memory;
  readonly #turns: Turns;
  readonly #hooks: FabricHooks;
  #jobs: Job[] = [];
  #letters: Letter[] = [];
  #nextId = 0;

  constructor(memory: Memory, turns: Turns, hooks: FabricHooks) {
    this.#memory = memory;
    this.#turns = turns;
    this.#hooks = hooks;
  }

  get jobs(): readonly Job[] {
    return this.#jobs;
  }

  /** Jobs that have not ended, reports that have not been delivered. */
  get isIdle(): boolean {
    return this.#jobs.length === 0 && this.#letters.length === 0;
  }

  submit(job: Omit<Job, 'id' | 'done'>): void {
    this.#jobs.push({ ...job, id: this.#nextId++, done: 0 });
  }

  /** Lets every job do what its time allows. */
  progress(now: number): void {
    for (const job of [...this.#jobs]) {
      if (now < job.startAt || !this.#hooks.isSettled(job.notBefore)) continue;
      if (job.done === 0) {
        if (job.direction === 'load') this.#flushUnder(job, now);
        this.#window(job);
      }
      if (job.done === 1 && now >= job.endAt) {
        this.#window(job);
        this.#end(job, now);
      }
    }
  }

  /** Lets jobs do all that they have to do, at once and unreported: a script reports them itself. */
  finish(which: (job: Job) => boolean): void {
    for (const job of this.#jobs.filter(which)) {
      if (!this.#hooks.isSettled(job.notBefore)) throw new Error(`job ${job.id} may not touch memory yet`);
      while (job.done < 2) this.#window(job);
      this.#jobs.splice(this.#jobs.indexOf(job), 1);
      this.#hooks.ended(job);
    }
  }

  /** Fenced jobs on these blocks end now, because a step is about to write them. */
  flush(blocks: ReadonlySet<number>, now: number): void {
    for (const job of [...this.#jobs]) {
      if (!job.fenced || !job.holding.blocks.some((block) => blocks.has(block))) continue;
      while (job.done < 2) this.#window(job);
      this.#end(job, now);
    }
  }

  #flushUnder(load: Job, now: number): void {
    this.flush(new Set(load.holding.blocks), now);
  }

  /** Half of the positions. */
  #window(job: Job): void {
    const middle = (job.from + job.to + 1) >> 1;
    const [from, to] = job.done === 0 ? [job.from, middle] : [middle, job.to];
    job.done++;
    this.#checkOwner(job, from, to);
    if (job.direction === 'store') return;
    for (const [i, target] of job.targets.entries()) {
      const text = job.fails || job.bad.has(i) ? null : job.text;
      const wrong = this.#memory.load(text, job.holding.name, target, from, to, job.ranks);
      if (wrong !== null) this.#hooks.wrong(`a load: ${wrong}`);
    }
  }

  /** I7: the blocks are still those of the request that the job is for. */
  #checkOwner(
    { direction, handle, holding, targets, fenced, pinned, id }: Job,
    from: number,
    to: number,
  ): void {
    if (fenced || pinned !== null) return;
    for (const { block, turn, ...target } of targets) {
      if (target.to <= from || target.from >= to || this.#turns.holds(handle, block, turn)) continue;
      const who = this.#turns.holders(block);
      const what = direction === 'load' ? 'writes' : 'reads';
      const whose = who.length === 0 ? 'is free' : `is held by ${who}`;
      this.#hooks.wrong(`${direction} ${id} for ${holding.name} ${what} block ${block}, which ${whose}`);
      return;
    }
  }

  #end(job: Job, now: number): void {
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    this.#hooks.ended(job);
    if (job.fenced || job.pinned !== null) return;
    const at = now + this.#hooks.delay(job);
    const { handle, child, rank, step } = job;
    const isStamped = this.#hooks.isStamped && job.direction === 'load';
    const report: ReportFacts = isStamped ? { handle, child, rank, step } : { handle, child, rank };
    let first: Letter | null = null;
    for (const index of job.bad) {
      const { block } = job.targets[index];
      const letter: Letter = this.post('invalid', at, report, block, this.#hooks.isNamed());
      letter.after = first;
      first = letter;
    }
    if (job.fails) {
      // Half of those that name no block were declined. Nobody draws for it, so that seeds stay what they were.
      const isDeclined = job.bad.size === 0 && job.id % 2 === 0;
      const letter: Letter = this.post('failed', at, isDeclined ? { ...report, declined: true } : report);
      letter.after = first;
      first = letter;
    }
    const kind = job.direction === 'load' ? 'received' : 'sent';
    this.post(kind, at, report).after = first;
  }

  /** Puts a report on its way, true or not. */
  post(
    kind: Letter['kind'],
    at: number,
    report: ReportFacts,
    block = 0,
    named = false,
    foreign = false,
  ): Letter {
    const letter: Letter = { at, kind, report, block, named, after: null, delivered: false, foreign };
    this.#letters.push(letter);
    return letter;
  }

  /**
   * Reports that have arrived, at most so many; none of a job's end before those of its failures.
   * @param order puts them into the order in which they are delivered
   */
  collect(now: number, most: number, order: (letters: unknown[]) => void): TransferFacts {
    this.#letters = this.#letters.filter((letter) => !(letter.foreign && this.#wouldLie(letter, now)));
    const due = this.#letters.filter(({ at }) => at <= now);
    order(due);
    const taken = new Set<Letter>();
    for (const letter of due.slice(0, most)) {
      for (let l: Letter | null = letter; l !== null; l = l.after) if (!l.delivered) taken.add(l);
    }
    for (const letter of taken) letter.delivered = true;
    if (taken.size > 0) this.#letters = this.#letters.filter(({ delivered }) => !delivered);
    const of = (kind: Letter['kind']) => [...taken].filter((letter) => letter.kind === kind);
    const reports = (kind: Letter['kind']) => of(kind).map(({ report }) => report);
    return {
      received: reports('received'),
      sent: reports('sent'),
      failed: reports('failed'),
      invalid: of('invalid').map(({ block, named, report }) => ({
        block,
        handle: named ? report.handle : undefined,
        child: report.child,
      })),
      lost: [],
    };
  }

  /** Whether a report would be taken for that of a job which has not ended, or not been reported: no protocol can tell. */
  #wouldLie({ at, kind, report }: Letter, now: number): boolean {
    if (at > now || kind === 'invalid') return false;
    const direction = kind === 'sent' ? 'store' : 'load';
    const { handle, child, rank, step } = report;
    const isUnderWay = this.#jobs.some(
      (job) =>
        job.handle === handle &&
        job.direction === direction &&
        job.child === child &&
        job.rank === rank &&
        (step === undefined || job.step === step),
    );
    return isUnderWay || this.#letters.some((letter) => !letter.foreign && isSame(letter, kind, report));
  }

  /** Nothing of a child, or of all, touches memory any more. Reports that travel still arrive. */
  fence(child: number | undefined): void {
    const fenced = this.#jobs.filter((job) => child === undefined || job.child === child);
    this.#jobs = this.#jobs.filter((job) => !fenced.includes(job));
    for (const job of fenced) this.#hooks.ended(job);
  }

  /** Jobs of a request that were never begun. */
  drop(handle: number): void {
    this.#jobs = this.#jobs.filter((job) => job.handle !== handle);
  }

  /** The faults are over: lost reports arrive, and everything ends soon. */
  calm(now: number): void {
    for (const job of this.#jobs) {
      job.startAt = Math.min(job.startAt, now + 10);
      job.endAt = Math.min(job.endAt, now + 20);
    }
    for (const letter of this.#letters) letter.at = Math.min(letter.at, now + 20);
  }
}

/** Whether a letter is the end of the same job. */
function isSame(letter: Letter, kind: Letter['kind'], { handle, child, rank, step }: ReportFacts): boolean {
  const { report } = letter;
  const isEnd = (letter.kind === 'sent') === (kind === 'sent') && letter.kind !== 'invalid';
  if (!isEnd || report.handle !== handle || report.child !== child || report.rank !== rank) return false;
  return step === undefined || report.step === undefined || step === report.step;
}
