import type { Asked } from '../audit/facts.js';

/** A plain request: no salt, no adapter, no grammar, no session, and nothing that stops it. */
export function plainly(id: string, prompt: Int32Array, maxTokens: number): Asked {
  return {
    ...{ id, prompt, salt: 0, adapter: '', hasGrammar: false, isSession: false },
    ...{ maxTokens, minTokens: 0, eosTokenId: -1, stopTokenIds: [] },
  };
}
