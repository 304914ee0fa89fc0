// Bugs to be planted in `src/pipeline`.
import type { Plant } from '../shared/plant.js';

const SENDER = 'src/pipeline/chunks/chunk-sender.ts';
const RECEIVER = 'src/pipeline/chunks/chunk-receiver.ts';
const ADAPTER = 'src/pipeline/chunks/chunk-transfer-adapter.ts';
const STAGE = 'src/pipeline/stage/stage.ts';
const STAGE_REQUEST = 'src/pipeline/stage/stage-request.ts';
const ORCHESTRATOR = 'src/pipeline/orchestrator/orchestrator.ts';
const REQUEST = 'src/pipeline/orchestrator/pipeline-request.ts';

/** Guards of pipelines, taken out. The simulation of pipelines must miss each. */
export const PIPELINE_PLANTS: readonly Plant[] = [
  {
    name: 'keyIsId',
    why: 'a request that has the id of an old one has its key too',
    file: ORCHESTRATOR,
    text: "const key = `${this.#party.slice('client/'.length)}.${number}`;",
    replacement: "const key = `${this.#party.slice('client/'.length)}.${id}`;",
  },
  {
    name: 'parkedForEver',
    why: 'what has ended stays parked',
    file: ADAPTER,
    text: '    this.#receiving.delete(key);\n    this.#parked.delete(key);',
    replacement: '    this.#receiving.delete(key);',
  },
  {
    name: 'chunkTwice',
    why: 'a chunk that comes twice is computed twice',
    file: RECEIVER,
    text: "    if (number < this.#next || this.#early.has(number)) return 'duplicate';",
    replacement: '    if (number < this.#next) give(chunk);',
  },
  {
    name: 'chunkOrder',
    why: 'a chunk that has overtaken another is computed first',
    file: RECEIVER,
    text: "    if (number > this.#next) return 'early';",
    replacement: "    if (number > this.#next) {\n      give(chunk);\n      return 'early';\n    }",
  },
  {
    name: 'takenOffByOne',
    why: 'a chunk is said to be computed when it has only come',
    file: ADAPTER,
    text: 'const number = receiver.next - 1 - receiving.numReady;',
    replacement: 'const number = receiver.next - receiving.numReady;',
  },
  {
    name: 'noWindow',
    why: 'any number of chunks is sent ahead',
    file: SENDER,
    text: 'while (this.#number - this.#taken < this.#window) {',
    replacement: 'while (this.#number >= this.#taken) {',
  },
  {
    name: 'chunkBeyondAnswer',
    why: 'where a chunk ends depends on how slow the next stage is',
    file: SENDER,
    text: '    if (this.#total > (this.#ends.at(-1) ?? this.#sent)) this.#ends.push(this.#total);',
    replacement: '    if (this.#total > this.#sent) this.#ends.splice(0, this.#ends.length, this.#total);',
  },
  {
    name: 'unsentForgotten',
    why: 'a request ends in a stage that has not sent all of it',
    file: STAGE_REQUEST,
    text: 'if (this.#isOver || this.#end === null || !adapter.isSent(key)) return;',
    replacement: 'if (this.#isOver || this.#end === null) return;',
  },
  {
    name: 'cleanupForgotten',
    why: 'chunks of what has ended stay',
    file: STAGE_REQUEST,
    text: '    this.#parts.adapter.cancel(this.submission.key);\n',
    replacement: '',
  },
  {
    name: 'workGoesOn',
    why: 'what has ended goes on in the engine',
    file: STAGE_REQUEST,
    text: '    this.#parts.forget(this);\n    work?.abort();',
    replacement: '    this.#parts.forget(this);',
  },
  {
    name: 'abortOneStage',
    why: 'an abort goes to the first stage alone',
    file: ORCHESTRATOR,
    text: "for (const name of this.#parts.names) this.#send(name, { kind: 'abort', key: request.key });",
    replacement:
      "for (const name of this.#parts.names.slice(0, 1)) this.#send(name, { kind: 'abort', key: request.key });",
  },
  {
    name: 'abortOnce',
    why: 'an abort that was lost is not sent again',
    file: ORCHESTRATOR,
    text: "if (this.#roster.byKey(key) === undefined) this.#send(name, { kind: 'abort', key });",
    replacement: '{}',
  },
  {
    name: 'endTwice',
    why: 'a reader is told the end again and again',
    file: 'src/pipeline/orchestrator/output-buffer.ts',
    text: '    if (this.#endTaken) return Promise.resolve(DONE);\n',
    replacement: '',
  },
  {
    name: 'endedForOne',
    why: 'a request ends when its last stage has ended, whatever the others do',
    file: REQUEST,
    text: 'return this.#stages.every(({ end }) => end !== null);',
    replacement: 'return this.#stages.at(-1)?.end !== null && this.#stages[0].end !== null;',
  },
  {
    name: 'keptByKey',
    why: 'a request that has ended is found by its key',
    file: 'src/pipeline/orchestrator/roster.ts',
    text: '    this.#byKey.delete(request.key);\n',
    replacement: '',
  },
  {
    name: 'outputTwice',
    why: 'an output that comes twice counts twice',
    file: REQUEST,
    text: "    if (number <= state.numOutputs || state.end !== null) return 'skipped';\n",
    replacement: '',
  },
  {
    name: 'outputLost',
    why: 'nobody misses an output that was lost',
    file: REQUEST,
    text: "    if (number > state.numOutputs + 1) return 'gap';\n",
    replacement: '',
  },
  {
    name: 'lastOutputLost',
    why: 'nobody misses the last output',
    file: REQUEST,
    text: "    if (numOutputs !== state.numOutputs) return 'gap';\n",
    replacement: '',
  },
  {
    name: 'stallNotRestarted',
    why: 'the time to take chunks runs on when one is taken',
    file: SENDER,
    text: 'this.#waitsSince = this.#taken < this.#number ? now : -1;',
    replacement: 'this.#waitsSince = this.#taken < this.#number ? this.#waitsSince : -1;',
  },
  {
    name: 'stallForEver',
    why: 'a request that has ended and cannot send its chunks is never given up',
    file: STAGE_REQUEST,
    text: '  fail(error: unknown): void {\n    if (this.#isOver) return;',
    replacement: '  fail(error: unknown): void {\n    if (this.#isOver || this.#end !== null) return;',
  },
  {
    name: 'submittedTwice',
    why: 'a submission that comes again after the end begins the request again',
    file: STAGE,
    text: 'if (this.#requests.has(key) || this.#over.has(key)) {\n      const detail',
    replacement: 'if (this.#requests.has(key)) {\n      const detail',
  },
  {
    name: 'overtaken',
    why: 'a chunk that has overtaken its submission is dropped',
    file: STAGE,
    text: 'else this.#early.keep(key, chunk, this.#place.now());',
    replacement: '',
  },
  {
    name: 'clientForgotten',
    why: 'requests of clients that have died go on',
    file: STAGE,
    text: 'if (now - heardAt >= deadMs) this.#giveUp(client);',
    replacement: ';',
  },
  {
    name: 'queueDropped',
    why: 'a chunk that comes while another is computed is dropped',
    file: 'src/pipeline/stage/generation-scheduler.ts',
    text: 'else this.#queue.push(taken);',
    replacement: '',
  },
  {
    name: 'endOverHasty',
    why: 'the end of the input ends a generation that is computing',
    file: 'src/pipeline/stage/generation-scheduler.ts',
    text: '    this.#isComplete = true;\n    if (this.#abort === null) this.#conclude();',
    replacement: '    this.#isComplete = true;\n    this.#conclude();',
  },
  {
    name: 'deadStageTrusted',
    why: 'a stage that was made anew is believed to have its old requests',
    file: ORCHESTRATOR,
    text: 'if (number > request.pingsBefore && request.pinged(stage, known.has(request.key)))',
    replacement: 'if (number < request.pingsBefore && request.pinged(stage, known.has(request.key)))',
  },
];
