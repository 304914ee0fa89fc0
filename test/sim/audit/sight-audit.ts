import type { Account } from './account.js';
import { type Seen, type Sight, Violation } from './facts.js';
import { numSinks } from './group-rules.js';
import type { Ledger } from './ledger.js';
import { checkBlocks, checkGauges, checkTokens, Places } from './sight-checks.js';
import { Turns } from './turns.js';

/** Anomalies whose exact reason is a matter of taste where several apply: only their sum is compared. */
const OF_TRANSFERS = new Set([
  'stale-handle',
  'duplicate-completion',
  'live-completion',
  'wrong-owner',
  'wrong-direction',
  'after-reset',
  'unknown-completion',
]);
const OF_ABORTS = new Set(['abort-unknown', 'abort-finished']);
const OF_BLOCKS = new Set(['invalid-block', 'reassigned-block']);

/**
 * Compares the scheduler's visible state after a call with the correct state: containers, blocks,
 * counts, anomalies.
 */
export class SightAudit {
  readonly turns = new Turns();
  readonly #ledger: Ledger;

  /** @param isStepping whether steps are in flight, or aborts wait for one */
  constructor(
    ledger: Ledger,
    private readonly isStepping: () => boolean,
  ) {
    this.#ledger = ledger;
  }

  check(sight: Sight): void {
    this.#containers(sight);
    this.#draining(sight);
    this.#blocks(sight);
    this.#counts(sight);
    this.#anomalies(sight);
    for (const list of [sight.requests, sight.draining, sight.quarantined]) {
      for (const seen of list) this.#kept(seen);
    }
    this.turns.see(sight);
    this.#ledger.quarantined = new Set(sight.quarantined.map(({ handle }) => handle));
  }

  /** I1, I2, I9. */
  #containers(sight: Sight): void {
    const { live, rules } = this.#ledger;
    const places = new Places(sight);
    for (const seen of sight.requests) {
      const account = live.get(seen.id);
      if (account?.handle !== seen.handle) throw new Violation('I1', `${seen.id} is tracked and has ended`);
      places.check(seen, account.name);
      this.#request(seen, account);
    }
    if (sight.requests.length !== live.size) {
      const seen = new Set(sight.requests.map(({ handle }) => handle));
      const lost = [...live.values()].filter(({ handle }) => !seen.has(handle));
      throw new Violation('I1', `${lost.map(({ name }) => name)} went without an end`);
    }
    places.end();
    if (sight.running.length > rules.maxNumSeqs) throw new Violation('I9', `${sight.running.length} run`);
    if (sight.rowsInUse > rules.numRows) throw new Violation('I12', `${sight.rowsInUse} rows`);
  }

  /** I18, and that a load is waited for exactly where there is one. */
  #request(seen: Seen, account: Account): void {
    const { maxDrafts, groups } = this.#ledger.rules;
    const { numTokens } = seen;
    const { name } = account;
    if (numTokens !== account.numTokens) {
      throw new Violation('I18', `${name} has ${numTokens} tokens, its client ${account.numTokens}`);
    }
    checkTokens(
      seen,
      name,
      maxDrafts,
      groups.map(({ size }) => size),
    );
    if (seen.stopReason !== null && account.conversation === null)
      throw new Violation('I14', `${name} goes on, and says that ${seen.stopReason} stopped it`);
    if ((account.conversation?.isIdle ?? false) !== (seen.status === 'WAITING_FOR_STREAMING_REQ'))
      throw new Violation('I2', `${name} is ${seen.status}, idle since ${account.conversation?.idleSince}`);
    if (account.loadingSince >= 0 && seen.status !== 'WAITING_FOR_REMOTE_KVS') {
      throw new Violation(
        'I8',
        `${name} is ${seen.status}, and its load is outstanding: ${[...account.uses]}`,
      );
    }
  }

  /** I6. */
  #draining(sight: Sight): void {
    const { held } = this.#ledger;
    let found = 0;
    for (const list of [sight.draining, sight.quarantined]) {
      for (const seen of list) {
        const account = this.#ledger.account(seen.handle);
        if (!held.has(account)) {
          throw new Violation(
            'I6',
            `${account.name} (${account.reason}) drains, and nothing uses its blocks`,
          );
        }
        if (!seen.finished) throw new Violation('I6', `${account.name} drains and has not finished`);
        found++;
      }
    }
    if (found !== held.size) {
      const seen = new Set([...sight.draining, ...sight.quarantined].map(({ handle }) => handle));
      const lost = [...held].filter(({ handle }) => !seen.has(handle));
      const said = lost.map(({ name, uses }) => `${name} (${[...uses]})`);
      throw new Violation('I6', `${said} drains no more, and its blocks are in use`);
    }
  }

  /** I3, I4, I12. */
  #blocks(sight: Sight): void {
    let rows = 0;
    for (const list of [sight.requests, sight.draining, sight.quarantined]) {
      for (const { rows: held, kept, handle } of list) {
        if (held.some((row) => row.length > 0)) rows++;
        if (kept.length > 0 && this.#ledger.account(handle).uses.size === 0) {
          throw new Violation('I4', `handle ${handle} keeps blocks that nothing uses`);
        }
      }
    }
    checkBlocks(sight, this.#ledger.rules.numBlocks, numSinks(this.#ledger.rules));
    if (rows > sight.rowsInUse) throw new Violation('I12', `${rows} hold blocks in ${sight.rowsInUse} rows`);
  }

  /** I7: a used block stays with its request, or is kept for it. */
  #kept({ handle, blocks, kept }: Seen): void {
    const account = this.#ledger.account(handle);
    const { uses, usedBy, name } = account;
    const user = usedBy.find((use) => uses.has(use));
    if (user !== undefined) {
      const lost = this.turns
        .of(handle)
        .blocks.find((block) => !blocks.includes(block) && !kept.includes(block));
      if (lost !== undefined) throw new Violation('I7', `${name} lost block ${lost}, which ${user} uses`);
    }
    if (uses.size > 0) account.usedBy = [...uses];
    else if (usedBy.length > 0) account.usedBy = [];
  }

  /** I13, I10. */
  #counts(sight: Sight): void {
    checkGauges(sight);
    const { due, held, finishedIds, live } = this.#ledger;
    const quarantined = new Set(sight.quarantined.map(({ handle }) => handle));
    for (const { name, handle, uses, isCancelled } of held) {
      if (quarantined.has(handle) && !isCancelled && [...uses].some(isSending))
        throw new Violation(
          'I6',
          `${name} is quarantined, and its connector was not asked to stop sending it`,
        );
    }
    const outstanding = [...held].some(({ handle }) => !quarantined.has(handle));
    const work = due.size > 0 || finishedIds.length > 0 || outstanding;
    if ((work || sight.connectorWorks) && !sight.hasWork)
      throw new Violation('I10', 'there is work, and hasWork() is false');
    const isIdle = live.size === 0 && !work && !sight.connectorWorks && !this.isStepping();
    if (isIdle && sight.hasWork) throw new Violation('I10', 'hasWork() is true, and there is none');
  }

  /** I8. */
  #anomalies(sight: Sight): void {
    const { anomalies, unclear, unclearOwners, unsureAborts } = this.#ledger;
    const off = { transfers: 0, blocks: 0, aborts: 0 };
    for (const reason of new Set([...anomalies.keys(), ...Object.keys(sight.anomalies)])) {
      const difference = (sight.anomalies[reason] ?? 0) - (anomalies.get(reason) ?? 0);
      if (OF_TRANSFERS.has(reason)) off.transfers += difference;
      else if (OF_BLOCKS.has(reason)) off.blocks += difference;
      else if (OF_ABORTS.has(reason)) off.aborts += difference;
      else if (difference !== 0) {
        throw new Violation(
          'I8',
          `${reason} counted ${sight.anomalies[reason]} times, was ${anomalies.get(reason)}`,
        );
      }
    }
    const isRight = off.transfers <= 0 && off.transfers >= -unclearOwners;
    const areBlocksRight = off.blocks >= 0 && off.blocks <= unclear;
    if (isRight && areBlocksRight && off.aborts >= 0 && off.aborts <= unsureAborts) return;
    const told = [JSON.stringify(sight.anomalies), JSON.stringify(Object.fromEntries(anomalies))];
    throw new Violation('I8', `anomalies ${told[0]}, caused ${told[1]}`);
  }
}

/** Whether a use is that of a connector which reads the blocks. */
function isSending(use: string): boolean {
  return /^store:\d+:\d+$/.test(use);
}
