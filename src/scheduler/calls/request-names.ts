import { knownNames, type NamesOf } from '../../base/known-names.js';
import type { ConnectorOutput } from '../connector/connector.js';
import type { RequestInput } from '../request/request.js';
import type { ChunkInput } from '../request/session.js';

const CHUNK_NAMES: NamesOf<ChunkInput> = {
  prompt: true,
  maxTokens: true,
  minTokens: true,
  eosTokenId: true,
  ignoreEos: true,
  stopTokenIds: true,
  arrivalTime: true,
  params: true,
};

const OF_PARAMS = 'it belongs into params, which reaches the executor as it is';
const OF_PROMPT = 'did you mean prompt, which is an array of token ids?';
const OF_TEXT = 'blockstep knows token ids only: tokenize the text, and give them as prompt';
const OF_MAX_TOKENS = 'did you mean maxTokens?';
const OF_STOP =
  'blockstep knows token ids only: stopTokenIds, or call stop() on what submit returned when the text has it';
const OF_GRAMMAR = 'did you mean grammar?';

/** Hints for unknown fields: names from other engines, and fields that do not exist here. */
const WORDS: Record<string, string> = {
  promptTokenIds: OF_PROMPT,
  promptTokens: OF_PROMPT,
  tokenIds: OF_PROMPT,
  tokens: OF_PROMPT,
  inputIds: OF_PROMPT,
  text: OF_TEXT,
  messages: OF_TEXT,
  maxNewTokens: OF_MAX_TOKENS,
  maxOutputTokens: OF_MAX_TOKENS,
  maxCompletionTokens: OF_MAX_TOKENS,
  numPredict: OF_MAX_TOKENS,
  eosToken: 'did you mean eosTokenId?',
  stop: OF_STOP,
  stopStrings: OF_STOP,
  stopSequences: OF_STOP,
  samplingParams: 'did you mean params?',
  sampling: 'did you mean params?',
  structuredOutputs: OF_GRAMMAR,
  guidedDecoding: OF_GRAMMAR,
  responseFormat: OF_GRAMMAR,
  n: 'a request is one sequence: submit it several times',
  bestOf: 'a request is one sequence: submit it several times',
  stream: 'every request streams; result() waits for all of it',
};

const SAMPLING = [
  'temperature',
  'topP',
  'topK',
  'minP',
  'seed',
  'logprobs',
  'topLogprobs',
  'promptLogprobs',
  'logitBias',
  'presencePenalty',
  'frequencyPenalty',
  'repetitionPenalty',
  'badWords',
  'allowedTokenIds',
  'images',
  'multiModalData',
];
for (const name of SAMPLING) WORDS[name] = OF_PARAMS;

/** Every field of a request, and hints for unknown names. */
export const REQUEST_FIELDS = knownNames<RequestInput>(
  'a request',
  {
    ...CHUNK_NAMES,
    id: true,
    priority: true,
    cacheSalt: true,
    adapter: true,
    resumable: true,
    grammar: true,
    timeoutMs: true,
    transferParams: true,
  },
  {
    ...WORDS,
    requestId: 'did you mean id?',
    lora: 'did you mean adapter?',
    loraRequest: 'did you mean adapter?',
    kvTransferParams: 'did you mean transferParams?',
    signal: 'it is an option of submit, behind the request: submit(request, { signal })',
    deadline: 'did you mean timeoutMs?',
  },
);

const OF_SESSION = 'that of the request which opened the session holds';

/** Every field of a chunk, and hints for unknown names. */
export const CHUNK_FIELDS = knownNames<ChunkInput>('a chunk', CHUNK_NAMES, {
  ...WORDS,
  id: OF_SESSION,
  priority: OF_SESSION,
  cacheSalt: OF_SESSION,
  adapter: OF_SESSION,
  grammar: OF_SESSION,
  timeoutMs: OF_SESSION,
  transferParams: OF_SESSION,
});

/** Every field of a `ConnectorOutput`, which `Scheduler.updateTransfers` takes. */
export const CONNECTOR_OUTPUT_FIELDS = knownNames<ConnectorOutput>('the output of updateTransfers', {
  finishedReceiving: true,
  finishedSending: true,
  failedReceiving: true,
  renewed: true,
  invalidBlocks: true,
  lostBlocks: true,
  workerMetadata: true,
});
