// The grammars of clients.
import type { Grammar } from '../../../src/scheduler/request/grammar.js';
import type { Stage } from './stage.js';
import { allows, follow } from './text.js';

/** A grammar whose state the executor reads for its bitmask rows; now and then it fails its request. */
export class SimGrammar implements Grammar {
  /** After all tokens that it took. */
  state: number;
  handle = -1;
  /** The grammar has thrown. */
  hasFailed = false;
  readonly #stage: Stage;
  readonly #readyAt: number;

  constructor(stage: Stage, state: number, readyAt: number) {
    this.#stage = stage;
    this.state = state;
    this.#readyAt = readyAt;
  }

  ready(): boolean {
    this.#fail();
    if (this.#stage.isCalm || this.#stage.now >= this.#readyAt) return true;
    this.#stage.blame(this.handle, 'wait');
    return false;
  }

  acceptTokens(tokens: Int32Array): boolean {
    if (this.#fail()) return false;
    for (const token of tokens) {
      if (!allows(this.state, token)) {
        this.#stage.broke('I11', `${this.#stage.name(this.handle)} got ${token}, which its grammar refuses`);
      }
      this.state = follow(this.state, token);
    }
    return true;
  }

  validateTokens(tokens: Int32Array): number {
    this.#fail();
    let { state } = this;
    for (let i = 0; i < tokens.length; i++) {
      if (!allows(state, tokens[i])) return i;
      state = follow(state, tokens[i]);
    }
    return tokens.length;
  }

  /** Throws, or refuses. */
  #fail(): boolean {
    const stage = this.#stage;
    const rng = stage.rng('grammars');
    if (!stage.strikes('grammarFails', rng)) return false;
    stage.blame(this.handle, 'grammar');
    stage.excused.add('grammar-failed');
    if (!rng.chance(0.5)) return true;
    this.hasFailed = true;
    throw new Error('the grammar fails');
  }
}
