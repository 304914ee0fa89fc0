import { hashSeedBytes } from '../core/core.js';
import { BlockstepError } from '../core/errors.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon, ReplayResult } from '../core/native.js';
import { coreConfig } from './core-config.js';
import type { LogHeader } from './log.js';
import { type LogRecord, readLog } from './log-reader.js';
import type { SchedulerOptions } from './options.js';
import type { Plan } from './plan.js';
import { type RecordedCall, RecordedGrammars, recordedCalls } from './recorded-grammars.js';
import { Scheduler } from './scheduler.js';

/**
 * Applies the recorded commands of a log to a fresh native instance. Its digest is that of the scheduler that wrote the
 * log, after its last recorded call.
 * @throws ERR_BLOCKSTEP_BAD_LOG, ERR_BLOCKSTEP_BAD_ARG for a header that says what no scheduler can be
 */
export function replayCommands(bytes: Uint8Array, addon: NativeAddon = loadAddon()): ReplayResult {
  let header: LogHeader | undefined;
  const batches: Uint32Array[] = [];
  let total = 0;
  for (const record of readLog(bytes)) {
    if (record.kind === 'header') header = record.header;
    if (record.kind !== 'commands') continue;
    batches.push(record.words);
    total += record.words.length;
  }
  const all = new Uint32Array(total);
  let at = 0;
  for (const words of batches) {
    all.set(words, at);
    at += words.length;
  }
  const options = optionsOf(header);
  return addon.replay(
    coreConfig({ ...requireHeader(header), hashSeed: hashSeedBytes(options.hashSeed ?? 0) }),
    all,
  );
}

/**
 * Feeds the recorded inputs of a log to a new scheduler of the same configuration, under the recorded clock, so that it
 * decides everything again. The caller disposes it.
 * @param onPlan sees every plan right after it was scheduled
 * @throws ERR_BLOCKSTEP_BAD_LOG, and whatever an input throws
 */
export function replayInputs(bytes: Uint8Array, onPlan: (plan: Plan) => void = () => {}): Scheduler {
  const records = readLog(bytes);
  const first = records.next();
  const header = first.done !== true && first.value.kind === 'header' ? first.value.header : undefined;
  let now = 0;
  const scheduler = new Scheduler({ ...optionsOf(header), now: () => now });
  const replay = new Replay(scheduler, onPlan);
  try {
    for (const call of recordedCalls(records)) {
      if ('now' in call.record) now = call.record.now;
      replay.carryOut(call);
    }
  } catch (error) {
    scheduler.dispose();
    throw error;
  }
  return scheduler;
}

/** Carries out recorded inputs, one after the other. */
class Replay {
  readonly #scheduler: Scheduler;
  readonly #onPlan: (plan: Plan) => void;
  readonly #grammars = new RecordedGrammars();
  readonly #inFlight: Plan[] = [];
  #last: Plan | undefined;

  constructor(scheduler: Scheduler, onPlan: (plan: Plan) => void) {
    this.#scheduler = scheduler;
    this.#onPlan = onPlan;
  }

  carryOut({ record, answers }: RecordedCall): void {
    this.#grammars.begin(answers);
    if (record.kind === 'schedule') this.#schedule();
    else if (record.kind === 'add') this.#add(record);
    else feed(this.#scheduler, record, this.#inFlight, this.#last);
    this.#grammars.check();
  }

  #schedule(): void {
    this.#last = this.#scheduler.schedule();
    if (this.#last.totalTokens > 0) this.#inFlight.push(this.#last);
    this.#onPlan(this.#last);
  }

  #add({ input, constrained }: LogRecord & { kind: 'add' }): void {
    let handle = 0;
    const grammar = constrained ? { grammar: this.#grammars.grammar(() => handle) } : {};
    handle = this.#scheduler.add({ ...input, ...grammar });
  }
}

/** Carries out one recorded input that makes neither a request nor a plan. */
function feed(scheduler: Scheduler, record: LogRecord, inFlight: Plan[], last: Plan | undefined): void {
  switch (record.kind) {
    case 'chunk':
      scheduler.addChunk(record.handle, record.input);
      return;
    case 'end':
      scheduler.endSession(record.handle);
      return;
    case 'replacedDrafts':
      scheduler.replaceDraftTokens(requirePlan(inFlight.find(({ step }) => step === record.step)), record);
      return;
    case 'abort':
      if (record.handles.length === 0) scheduler.abortAll();
      else scheduler.abort(record.handles);
      return;
    case 'update': {
      const { counts, tokens, errors } = record;
      const plan = counts.length === 0 ? last : inFlight.shift();
      scheduler.update(
        requirePlan(plan),
        errors === undefined ? { counts, tokens } : { counts, tokens, errors },
      );
      return;
    }
    case 'stepFailed':
      scheduler.failStep(requirePlan(inFlight.shift()));
      return;
    case 'drafts':
      scheduler.updateDraftTokens(requirePlan(last), record);
      return;
    case 'reset':
      scheduler.resetPrefixCache({ resetRunning: record.resetRunning });
      return;
    case 'pause':
      if (record.mode === 'none') scheduler.resume();
      else scheduler.pause(record.mode);
      return;
    case 'hold':
      scheduler.hold(record.use.handle, record.use.kind, record.use.owner);
      return;
    case 'complete':
      scheduler.complete(record.use.handle, record.use.kind, record.use.owner);
      return;
  }
}

function optionsOf(header: LogHeader | undefined): SchedulerOptions {
  const { pipelineDepth, hashSeed, connector: _connector, ...rest } = requireHeader(header);
  const options = { ...rest, hashSeed: new Uint8Array(Buffer.from(hashSeed, 'hex')) };
  return { ...options, pipelineDepth: pipelineDepth as 1 | 2 | 3 };
}

function requireHeader(header: LogHeader | undefined): LogHeader {
  if (typeof header?.hashSeed === 'string') return header;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_LOG', 'the log does not begin with the header of a scheduler');
}

function requirePlan(plan: Plan | undefined): Plan {
  if (plan !== undefined) return plan;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_LOG', 'the log updates a step that it did not schedule');
}
