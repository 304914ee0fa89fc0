import type { Account } from './account.js';
import { Violation } from './facts.js';
import type { Ledger } from './ledger.js';

/** The questions to grammars, and their answers. Null is an answer that was none: the grammar threw. */
export class GrammarAudit {
  readonly #ledger: Ledger;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  ready(handle: number, answer: boolean | null): void {
    const account = this.#asked(handle);
    if (account.grammarSince < 0)
      throw new Violation('I2', `the grammar of ${account.name} is asked again whether it is ready`);
    account.grammarAskedAt = this.#ledger.now;
    if (answer !== false) account.grammarSince = -1;
    if (answer === null && this.#ledger.rules.version.failsWithUpdate) this.#failsLater(account);
    else if (answer === null) this.#failed(account);
  }

  validated(handle: number, answer: number | null): void {
    const account = this.#asked(handle);
    if (answer === null) this.#failed(account);
  }

  accepted(handle: number, tokens: readonly number[], answer: boolean | null): void {
    const account = this.#asked(handle);
    account.shown.push(...tokens);
    if (answer === null) this.#ledger.anomaly('grammar-failed');
    if (answer !== true) account.wasRefused = true;
  }

  #failsLater(account: Account): void {
    this.#ledger.anomaly('grammar-failed');
    account.failsWithUpdate = true;
  }

  #failed(account: Account): void {
    this.#ledger.anomaly('grammar-failed');
    account.mayFail = 'its grammar failed';
  }

  #asked(handle: number): Account {
    const account = this.#ledger.account(handle);
    if (!account.isLive)
      throw new Violation('I1', `the grammar of ${account.name} is asked, which has ended`);
    return account;
  }
}
