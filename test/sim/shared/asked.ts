// The request of a client, as plain data and as the scheduler takes it.
import type { RequestInput } from '../../../src/scheduler/request/request.js';
import type { Asked } from '../audit/facts.js';

/** A plain request: no salt, no adapter, no grammar, no session, and nothing that stops it. */
export function plainly(id: string, prompt: Int32Array, maxTokens: number): Asked {
  return {
    ...{ id, prompt, salt: 0, adapter: '', hasGrammar: false, isSession: false },
    ...{ maxTokens, minTokens: 0, eosTokenId: -1, stopTokenIds: [] },
  };
}

/** A client's request, as a scheduler takes it; without the grammar. */
export function inputOf(asked: Asked): RequestInput {
  const { id, prompt, maxTokens, minTokens, eosTokenId, stopTokenIds, salt, adapter, isSession } = asked;
  const input: RequestInput = { id, prompt, maxTokens, minTokens, stopTokenIds };
  if (eosTokenId >= 0) input.eosTokenId = eosTokenId;
  if (salt !== 0) input.cacheSalt = `salt${salt}`;
  if (adapter !== '') input.adapter = adapter;
  if (isSession) input.resumable = true;
  if (asked.timeoutMs !== undefined) input.timeoutMs = asked.timeoutMs;
  return input;
}
