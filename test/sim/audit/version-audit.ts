import { type EntryFacts, type PlanFacts, type Seen, type Sight, Violation } from './facts.js';
import type { Ledger } from './ledger.js';
import type { StepAudit } from './step-audit.js';

/** The rules in which versions of vLLM differ, for plans, the free queue and rows that are given up. */
export class VersionAudit {
  readonly #ledger: Ledger;
  readonly #steps: StepAudit;
  #before: Sight | null = null;
  /** Blocks of each step in flight that its entries may write. */
  readonly #written = new Map<number, Set<number>>();
  /** Prompts under way: taken in, or loading, with tokens left to compute. */
  readonly #prefills = new Set<number>();
  /** Requests that a forced reset preempted since the last step. */
  #resetVictims: string[] = [];
  /** This call is such a reset: blocks that came back in it may have lost their hashes since. */
  #isReset = false;

  constructor(ledger: Ledger, steps: StepAudit) {
    this.#ledger = ledger;
    this.#steps = steps;
  }

  /** A forced reset of the prefix cache has voided all steps in flight. */
  reset(preempted: readonly string[]): void {
    this.#written.clear();
    this.#isReset = true;
    this.#resetVictims.push(...preempted);
  }

  /** @param plan the one that was made in this call; null: the call made none */
  saw(sight: Sight, plan: PlanFacts | null): void {
    const { version } = this.#ledger.rules;
    if (!this.#isReset) this.#queue(sight, plan);
    this.#isReset = false;
    if (plan !== null) {
      this.#budget(plan);
      this.#padding(plan);
      this.#lookahead(plan);
      this.#spared(sight, plan);
      this.#seats(sight, plan);
      if (version.loadReservation) this.#reserved(sight, plan);
      const lost = this.#resetVictims.find((id) => version.sinceLast && !plan.preempted.includes(id));
      if (lost !== undefined)
        throw new Violation('I12', `the plan does not name ${lost}, which a reset preempted`);
      this.#resetVictims = [];
      if (version.fencesFrees) this.#write(sight, plan);
    }
    if (version.fencesFrees) {
      this.#letGo(sight);
      this.#fenced(sight);
    }
    this.#before = sight;
  }

  /**
   * Blocks that came back in this call stand behind all others; among them, blocks that no lookup
   * can find stand first.
   */
  #queue(sight: Sight, plan: PlanFacts | null): void {
    const before = this.#before;
    if (before === null) return;
    // Blocks that were taken and came back within the call tell nothing.
    const live = new Set(sight.requests.map(({ handle }) => handle));
    const goesBack = plan !== null && plan.preempted.length > 0;
    if (goesBack || (plan !== null && before.requests.some(({ handle }) => !live.has(handle)))) return;
    const { unhashedFirst } = this.#ledger.rules.version;
    const wasFree = new Set(before.free);
    const kept = sight.free.filter((block) => wasFree.has(block));
    const order = new Map(before.free.map((block, i) => [block, i]));
    // A block that was held for a moment, and came back, moved too. Then it is unknown which blocks
    // came back.
    if (kept.some((block, i) => i > 0 && (order.get(block) as number) < (order.get(kept[i - 1]) as number)))
      return;
    const first = sight.free.findIndex((block) => wasFree.has(block));
    const last = sight.free.findLastIndex((block) => wasFree.has(block));
    for (const [i, block] of sight.free.entries()) {
      if (wasFree.has(block) || first < 0) continue;
      const isHashed = sight.published.has(block);
      // Without a hash now it may have had one when it came back, if it had one or could have got one.
      const mayBeBehind = !unhashedFirst || isHashed || before.published.has(block) || !this.#isSure(block);
      if (i < first && (!unhashedFirst || isHashed))
        throw new Violation('I3', `block ${block} came back, and stands in front of the others`);
      if (i > last && !mayBeBehind)
        throw new Violation('I3', `block ${block} came back without a hash, and stands behind the others`);
    }
  }

  /** Whether a block cannot have got a hash in this call: its request has no token that it had not before. */
  #isSure(block: number): boolean {
    const owner = this.#before?.requests.find(({ blocks }) => blocks.includes(block));
    return owner !== undefined && this.#steps.numInFlight === 0 && owner.container !== 'running';
  }

  #budget({ step, totalTokens, entries }: PlanFacts): void {
    const { maxNumBatchedTokens, version } = this.#ledger.rules;
    const cost = totalTokens + version.draftSlots * entries.length;
    if (cost > maxNumBatchedTokens)
      throw new Violation('I18', `step ${step} has ${totalTokens} tokens and ${entries.length} drafters`);
  }

  /**
   * A request that is admitted with one token to compute, among nothing but decodes, gets drafts
   * that nobody made. No other request gets any.
   */
  #padding({ entries }: PlanFacts): void {
    const { maxDrafts, version } = this.#ledger.rules;
    const ran = entries.filter(({ kind }) => kind === 'running');
    const decode = ran.length > 0 && ran.every((entry) => !this.#wasPrefill(entry));
    for (const { kind, drafts, handle, computed, scheduled } of entries) {
      if (kind === 'running') continue;
      const { name, numTokens } = this.#ledger.account(handle);
      const pads = version.padDecode && decode && maxDrafts > 0 && !version.padsNobody;
      const isLast = computed + scheduled - drafts === numTokens && scheduled - drafts === 1;
      if (drafts > 0 && (!pads || !isLast || drafts !== maxDrafts || scheduled !== 1 + maxDrafts))
        throw new Violation('I18', `${name} comes in with ${drafts} drafts for ${scheduled} tokens`);
      if (drafts === 0 && pads && isLast && ran.every((entry) => this.#isDecode(entry)))
        throw new Violation('I18', `${name} comes in with one token, and is not padded`);
    }
    for (const { handle, computed, scheduled, drafts } of entries)
      this.#ledger.account(handle).reached = computed + scheduled - drafts;
  }

  /**
   * Whether tokens of an entry's request were left to compute before this step. A block that was
   * taken back since counts as before (as in vLLM).
   */
  #wasPrefill({ handle, computed, drafts }: EntryFacts): boolean {
    if (computed < this.#ledger.account(handle).reached) return false;
    const before = this.#before?.requests.find((seen) => seen.handle === handle);
    return before === undefined || computed + 1 < before.numTokens + before.placeholders - drafts;
  }

  /** Whether an entry's request has surely generated something since it came in, and nothing of it is in flight. */
  #isDecode({ handle, computed }: EntryFacts): boolean {
    const { asked, wasEverPreempted, conversation } = this.#ledger.account(handle);
    const isPlain = !wasEverPreempted && conversation === null;
    return isPlain && computed >= asked.prompt.length && this.#ledger.rules.pipelineDepth === 1;
  }

  /** A request that is admitted to compute has places for its drafts where the rule demands it. */
  #lookahead({ entries }: PlanFacts): void {
    const { maxModelLen, groups, version, numBlocks } = this.#ledger.rules;
    if (
      !version.admissionLookahead ||
      version.lookahead === 0 ||
      groups.length > 1 ||
      groups[0].type !== 'full'
    )
      return;
    const most = Math.min(maxModelLen, (numBlocks - 1) * groups[0].size);
    for (const { kind, handle, computed, scheduled, numBlocks: held } of entries) {
      if (kind === 'running') continue;
      const slots = Math.min(computed + scheduled + version.lookahead, most);
      if (held * groups[0].size < slots)
        throw new Violation(
          'I4',
          `${this.#ledger.account(handle).name} comes in with ${held} blocks for ${slots} slots`,
        );
    }
  }

  /** A request that is admitted while others run leaves blocks free. */
  #spared(sight: Sight, { entries }: PlanFacts): void {
    const { spare } = this.#ledger.rules.version;
    const comesIn = entries.some(({ kind }) => kind !== 'running') && sight.running.length > 1;
    if (comesIn && sight.free.length < spare)
      throw new Violation(
        'I10',
        `somebody comes in beside others, and leaves ${sight.free.length} of ${spare} blocks`,
      );
  }

  /** Sessions that wait for input have seats where the rule demands it. */
  #seats(sight: Sight, { entries }: PlanFacts): void {
    const { maxNumSeqs, version } = this.#ledger.rules;
    if (!version.seatsIdle || !entries.some(({ kind }) => kind !== 'running')) return;
    const idle = sight.requests.filter(({ status }) => status === 'WAITING_FOR_STREAMING_REQ').length;
    if (sight.running.length + idle > maxNumSeqs)
      throw new Violation('I9', `${sight.running.length} run beside ${idle} idle sessions`);
  }

  /** Behind a load that began alone, the prompts under way still fit. */
  #reserved(sight: Sight, { step, entries }: PlanFacts): void {
    const began = sight.requests.filter((seen) => this.#beganLoad(seen, step));
    const { blockSize, maxModelLen, groups } = this.#ledger.rules;
    const bySeen = new Map(sight.requests.map((seen) => [seen.handle, seen]));
    for (const handle of this.#prefills) if (!isUnderWay(bySeen.get(handle))) this.#prefills.delete(handle);
    // The blocks that a window, a chunk or a state takes later depend on the blocks that it
    // releases until then.
    const isPlain = groups.length === 1 && groups[0].type === 'full';
    if (isPlain && began.length === 1 && entries.every(({ kind }) => kind === 'running')) {
      let needed = 0;
      for (const handle of this.#prefills) {
        const { numTokens, rows } = bySeen.get(handle) as Seen;
        const most = Math.ceil(Math.min(numTokens, maxModelLen) / blockSize);
        if (handle !== began[0].handle && rows[0].length > 0) needed += Math.max(0, most - rows[0].length);
      }
      if (sight.free.length < needed)
        throw new Violation(
          'I10',
          `${began[0].id} loads, and leaves ${sight.free.length} of ${needed} blocks`,
        );
    }
    for (const { handle } of began) this.#prefills.add(handle);
    for (const { kind, handle, computed, scheduled, drafts } of entries) {
      const seen = bySeen.get(handle);
      const isDone = seen === undefined || computed + scheduled - drafts >= seen.numTokens;
      if (isDone) this.#prefills.delete(handle);
      else if (kind !== 'running') this.#prefills.add(handle);
    }
  }

  /** Whether a request began a load in this step, maybe the one in which it gave its blocks up. */
  #beganLoad({ handle, status, blocks }: Seen, step: number): boolean {
    const { loadStep } = this.#ledger.account(handle);
    return status === 'WAITING_FOR_REMOTE_KVS' && loadStep === step && blocks.length > 0;
  }

  #write(sight: Sight, { step, entries }: PlanFacts): void {
    const rows = new Map(sight.requests.map(({ handle, blocks }) => [handle, blocks]));
    if (entries.length > 0)
      this.#written.set(step, new Set(entries.flatMap(({ handle }) => rows.get(handle) ?? [])));
  }

  /**
   * Blocks that a request releases from its rows come back at once, as left of a window: while it
   * goes on, and when it ends. Loads wait for the steps in flight.
   */
  #letGo(sight: Sight): void {
    const { groups } = this.#ledger.rules;
    const now = new Map(
      [...sight.requests, ...sight.draining, ...sight.quarantined].map(({ handle, rows }) => [handle, rows]),
    );
    for (const { handle, rows } of this.#before?.requests ?? []) {
      for (const [g, row] of rows.entries()) {
        if (groups[g].type === 'full' || groups[g].type === 'sink') continue;
        // A request that gives a row back may have released some of its blocks in the same call.
        const left = now.get(handle)?.[g] ?? [];
        const gone = row.filter((block, place) => block !== 0 && (left[place] ?? 0) === 0);
        for (const block of gone) for (const blocks of this.#written.values()) blocks.delete(block);
      }
    }
  }

  /** A block that a step in flight may write belongs to no other request, and is not free. */
  #fenced({ free }: Sight): void {
    const inFlight = new Set(this.#steps.entriesSince(0).map(({ step }) => step));
    for (const [step, blocks] of this.#written) {
      if (!inFlight.has(step)) this.#written.delete(step);
      else
        for (const block of free)
          if (blocks.has(block))
            throw new Violation('I7', `block ${block} is free, and step ${step} may write it`);
    }
  }
}

/** Whether a request has begun to compute or to load, and holds on. */
function isUnderWay(seen: Seen | undefined): boolean {
  return (
    seen !== undefined &&
    !seen.finished &&
    seen.status !== 'PREEMPTED' &&
    seen.status !== 'WAITING_FOR_STREAMING_REQ'
  );
}
