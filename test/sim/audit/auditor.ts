import type { Account } from './account.js';
import { AdmissionAudit } from './admission-audit.js';
import { ClientAudit } from './client-audit.js';
import { type Reason, type Rules, type Sight, Violation } from './facts.js';
import { GrammarAudit } from './grammar-audit.js';
import { GroupAudit } from './group-audit.js';
import { mostTokens, numUsable } from './group-rules.js';
import { Ledger } from './ledger.js';
import { LetGo } from './let-go.js';
import { RecomputeAudit } from './recompute-audit.js';
import { SessionAudit } from './session-audit.js';
import { SightAudit } from './sight-audit.js';
import { StepAudit } from './step-audit.js';
import { TransferAudit } from './transfer-audit.js';
import { VersionAudit } from './version-audit.js';

/**
 * Recomputes the correct state from inputs and answers, and compares it after every call. The
 * auditor shares no code with the scheduler.
 *
 *   clients   requests that were added or aborted, and the users of blocks
 *   sessions  the chunks and answers of sessions
 *   grammars  the calls of grammars
 *   steps     plans that are possible, and rows that are due
 *   admissions requests that are admitted, and requests that give up their blocks for others
 *   recomputes requests that start again because of a failure
 *   transfers questions to connectors, their answers and their reports
 *   versions  rules in which versions of vLLM differ
 *   groups    rows of KV cache groups
 *   sights    the visible state of the scheduler between two calls
 */
export class Auditor {
  readonly ledger: Ledger;
  readonly clients: ClientAudit;
  readonly sessions: SessionAudit;
  readonly grammars: GrammarAudit;
  readonly steps: StepAudit;
  readonly transfers: TransferAudit;
  readonly sights: SightAudit;
  readonly recomputes: RecomputeAudit;
  readonly admissions: AdmissionAudit;
  readonly groups: GroupAudit;
  readonly versions: VersionAudit;

  constructor(rules: Rules, tokenAt: (handle: number, position: number) => number) {
    this.ledger = new Ledger(rules);
    this.sights = new SightAudit(this.ledger, () => this.steps.numInFlight > 0 || this.clients.mayHaveQueued);
    this.clients = new ClientAudit(this.ledger);
    this.grammars = new GrammarAudit(this.ledger);
    this.sessions = new SessionAudit(this.ledger);
    this.admissions = new AdmissionAudit(this.ledger);
    this.steps = new StepAudit(this.ledger, tokenAt);
    this.groups = new GroupAudit(this.ledger, this.steps);
    this.versions = new VersionAudit(this.ledger, this.steps);
    const { turns } = this.sights;
    const letGo = new LetGo(turns);
    this.transfers = new TransferAudit(this.ledger, turns, letGo);
    this.recomputes = new RecomputeAudit(this.ledger, this.steps, this.transfers, turns, letGo);
  }

  /** A call begins, at this time. */
  began(now: number, drains: boolean, schedules = false): void {
    this.ledger.now = now;
    this.ledger.isScheduling = schedules;
    if (schedules) this.ledger.numPlans++;
    this.ledger.patient.clear();
    this.clients.began(drains);
  }

  /** A call is over, its answers were passed on, and this is the visible state. */
  saw(sight: Sight): void {
    this.transfers.callEnded();
    const planned = this.ledger.isScheduling ? this.steps.lastPlan : null;
    if (planned !== null) this.recomputes.planned(planned.step, sight);
    this.sights.check(sight);
    if (planned !== null) this.transfers.planned(planned.step);
    this.recomputes.saw(sight);
    this.admissions.saw(sight, planned);
    this.groups.saw(sight, planned);
    this.versions.saw(sight, planned);
    if (this.ledger.isScheduling) this.#deadlines(sight);
    for (const seen of sight.requests) {
      const account = this.ledger.account(seen.handle);
      if (account.container === 'running' && seen.container !== 'running' && !account.hasContinued) {
        this.#preempted(account);
        account.wasPreempted = true;
        account.wasEverPreempted = true;
        account.queuedSince = this.ledger.now;
      }
      account.hasContinued = false;
      if (account.shown.length > 0)
        throw new Violation(
          'I18',
          `the grammar of ${account.name} was shown [${account.shown}], its client not`,
        );
      if (seen.status !== 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR') account.grammarSince = -1;
      // A running request waits for nothing: it may have been admitted without another question.
      if (seen.container === 'running') account.askingSince = -1;
      account.container = seen.container;
      account.hasBlocks = seen.blocks.length > 0;
      if (seen.status !== 'WAITING_FOR_REMOTE_KVS') account.waitedSince = -1;
      account.mayFail = null;
      if (account.sharesBad) account.loadFailed = false;
      account.sharesBad = false;
      account.endsLate = false;
      if (account.unsure) account.expected = seen.placeholders;
      account.unsure = false;
      if (
        account.loadFailed &&
        !account.loadDeclined &&
        account.loadingSince < 0 &&
        this.ledger.rules.loadFailurePolicy === 'fail'
      ) {
        throw new Violation('I14', `${account.name} goes on, though its load has failed`);
      }
    }
  }

  /** A forced reset has voided all steps in flight. */
  voided(preempted: readonly string[]): void {
    this.transfers.voided();
    this.versions.reset(preempted);
  }

  /**
   * I17: the prefix cache was reset.
   * @param tier the answer of the connector's store; null: it was not asked, or gave none
   */
  reset(
    said: { ok: boolean; local: boolean; connector: boolean | null; blockers: readonly string[] },
    { free }: Sight,
    { pinned, tier }: { pinned: number; tier: boolean | null },
  ): void {
    const { ok, local, connector, blockers } = said;
    if (local !== (free.length === numUsable(this.ledger.rules)))
      throw new Violation('I17', `reset answered ${local} with ${free.length} free blocks`);
    if (local !== (blockers.length === 0 && pinned === 0))
      throw new Violation('I17', `reset answered ${local} with blockers [${blockers}]`);
    const asked = local ? tier : null;
    if (connector !== asked || ok !== (local && asked !== false))
      throw new Violation('I17', `reset answered ${ok} and ${connector} for a tier that says ${asked}`);
  }

  /** Decides the effect of the steps in flight on a request that was preempted. */
  #preempted(account: Account): void {
    const { preemptedOutputs } = this.ledger.rules.version;
    if (preemptedOutputs === 'discard') this.steps.void(account, 'void');
    else if (preemptedOutputs === 'await') this.steps.awaits(account);
  }

  /** I15: no request waits longer than its deadline, when a step is made. */
  #deadlines({ quarantined }: Sight): void {
    const { live, held, rules, now } = this.ledger;
    const isOver = (since: number, deadline: number): boolean => deadline > 0 && now - since >= deadline;
    for (const account of live.values()) {
      const { name, loadingSince, waitedSince, conversation, grammarSince, askingSince, askedIn } = account;
      if (askingSince >= 0 && askedIn === this.ledger.numPlans && isOver(askingSince, rules.loadDeadline))
        throw new Violation('I15', `${name} has waited for its connector since ${askingSince}`);
      if (grammarSince >= 0 && isOver(grammarSince, rules.grammarDeadline))
        throw new Violation('I15', `${name} has waited for its grammar since ${grammarSince}`);
      if (conversation?.isIdle && isOver(conversation.idleSince, rules.inputDeadline))
        throw new Violation('I15', `${name} has waited for its next chunk since ${conversation.idleSince}`);
      if (loadingSince >= 0 && isOver(waitedSince, rules.loadDeadline))
        throw new Violation('I15', `${name} has waited for its load since ${waitedSince}`);
      const late = this.ledger.lateFor(account);
      if (late !== null) throw new Violation('I15', `${name} ${late}`);
    }
    const given = new Set(quarantined.map(({ handle }) => handle));
    for (const { name, endedAt, handle } of held) {
      if (!given.has(handle) && isOver(endedAt, rules.reclaimDeadline))
        throw new Violation('I15', `${name} ended at ${endedAt}, and its blocks are waited for`);
    }
  }

  /**
   * Requests that ended silently inside of a call: their rows are due with the next update. Only
   * three things end a request so: it outgrew the pool, its wait took too long, its connector or
   * its load failed.
   */
  unannounced(sight: Sight): void {
    this.clients.drained();
    const { live, rules, now } = this.ledger;
    if (sight.requests.length === live.size) return;
    const seen = new Set(sight.requests.map(({ handle }) => handle));
    const gone = [...live.values()].filter(({ handle }) => !seen.has(handle));
    for (const account of gone.sort((a, b) => Number(a.endsLate) - Number(b.endsLate))) {
      if (account.endsLate) this.ledger.endedLate++;
      const reason = this.#causeOf(account.handle, rules, now);
      if (reason === null)
        throw new Violation('I1', `${account.name} is tracked no more, and nothing ended it`);
      this.ledger.end(account, reason, 'due');
      if (account.timesFinished > 0) this.ledger.untold.delete(account);
    }
  }

  #causeOf(handle: number, rules: Rules, now: number): Reason | null {
    const account = this.ledger.account(handle);
    if (account.mayFail !== null || account.isDoomed || this.ledger.lateFor(account) !== null) return 'error';
    const { loadDeadline, maxModelLen } = rules;
    const { waitedSince, waitedUntil, conversation, grammarSince, grammarAskedAt } = account;
    const isOver = (since: number, deadline: number): boolean =>
      since >= 0 && deadline > 0 && now - since >= deadline;
    if (isOver(conversation?.idleSince ?? -1, rules.inputDeadline)) return 'error';
    if (grammarAskedAt === now && isOver(grammarSince, rules.grammarDeadline)) return 'error';
    if (account.askedIn === this.ledger.numPlans && isOver(account.askingSince, loadDeadline)) return 'error';
    const waited = (waitedUntil < 0 ? now : waitedUntil) - waitedSince;
    if (waitedSince >= 0 && loadDeadline > 0 && waited >= loadDeadline) return 'error';
    if (account.numTokens >= Math.min(maxModelLen, mostTokens(rules))) return 'length';
    return null;
  }

  /** Nothing may be left of anybody: I19, and the engine is empty. */
  empty(sight: Sight): void {
    const { live, held, due, finishedIds, rules } = this.ledger;
    const left: string[] = [];
    for (const { name } of live.values()) left.push(`${name} has not ended`);
    for (const { name, uses } of held) left.push(`${name} is held by ${[...uses]}`);
    for (const { name } of due) left.push(`the end of ${name} was not told`);
    if (finishedIds.length > 0) left.push(`the ends of [${finishedIds}] stood in no plan`);
    const used = numUsable(rules) - sight.free.length;
    if (used > 0) left.push(`${used} blocks are not free`);
    if (sight.rowsInUse > 0) left.push(`${sight.rowsInUse} rows are in use`);
    if (sight.hasWork) left.push('hasWork() is true');
    if (left.length > 0) throw new Violation('I19', left.join('; '));
  }
}
