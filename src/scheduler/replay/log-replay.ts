// Replays commands on a native core, or inputs on a scheduler.
import { BlockstepError } from '../../base/errors.js';
import { loadAddon } from '../../core/loader.js';
import type { NativeAddon, ReplayResult } from '../../core/native/native.js';
import type { ParsedOutput } from '../connector/connector-output.js';
import type { LogHeader } from '../log/log.js';
import { type LogRecord, readLog } from '../log/log-reader.js';
import { coreConfig } from '../options/core-config.js';
import type { LogSink, SchedulerOptions } from '../options/options.js';
import { resolveOptions } from '../options/resolve-options.js';
import { optionsAgain } from '../options/single-rules.js';
import type { Plan } from '../plan/plan.js';
import type { Grammar } from '../request/grammar.js';
import { Scheduler } from '../scheduler.js';
import { RecordedAnswers, type RecordedCall, recordedCalls } from './recorded-answers.js';
import { recordedConnector } from './recorded-connector.js';

/**
 * Applies the recorded commands of a log to a fresh native core.
 * @returns among others the digest, which equals that of the scheduler that wrote the log after its last recorded call
 * @throws ERR_BLOCKSTEP_BAD_LOG; ERR_BLOCKSTEP_BAD_ARG for a header that no scheduler can have
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
  return addon.replay(coreConfig(resolveOptions({ ...optionsOf(header), connector: null })), all);
}

/**
 * Feeds the recorded inputs of a log to a new scheduler of the same configuration, under the
 * recorded clock, so that it decides everything again. Grammars and the connector give their
 * recorded answers. Only `strict` is off: strict mode changes no decision, and the calls that it
 * made throw had been carried out. The caller must dispose the scheduler.
 * @param onPlan called with every plan right after it was scheduled
 * @param log receives the log of this run; after the header it equals `bytes` as long as the
 * decisions are the same
 * @returns the scheduler, after its last recorded call
 * @throws ERR_BLOCKSTEP_BAD_LOG, also if the scheduler asks a question whose answer was not
 * recorded; the error of an input
 */
export function replayInputs(
  bytes: Uint8Array,
  onPlan: (plan: Plan) => void = () => {},
  log?: LogSink,
): Scheduler {
  const calls = recordedCalls(readLog(bytes));
  const first = calls.next().value as RecordedCall | undefined;
  const { connector, ...options } = optionsOf(
    first?.record.kind === 'header' ? first.record.header : undefined,
  );
  const answers = new RecordedAnswers();
  let now = 0;
  const scheduler = new Scheduler({
    ...options,
    connector: connector === null ? null : recordedConnector(connector, answers),
    strict: false,
    now: () => now,
    ...(log && { log }),
  });
  const replay = new Replay(scheduler, answers, onPlan);
  try {
    answers.begin(first?.facts ?? []);
    answers.end();
    for (const call of calls) {
      if ('now' in call.record) now = call.record.now;
      replay.carryOut(call);
    }
  } catch (error) {
    scheduler.dispose();
    throw error;
  }
  return scheduler;
}

/** Carries out recorded inputs, one after the other, on one scheduler. */
class Replay {
  readonly #scheduler: Scheduler;
  readonly #answers: RecordedAnswers;
  readonly #onPlan: (plan: Plan) => void;
  /** Plans that wait for their update, oldest first. */
  #waiting: Plan[] = [];
  #last: Plan | undefined;
  /** Recorded reports that belong to the next update. */
  #reports: ParsedOutput | null = null;

  constructor(scheduler: Scheduler, answers: RecordedAnswers, onPlan: (plan: Plan) => void) {
    this.#scheduler = scheduler;
    this.#answers = answers;
    this.#onPlan = onPlan;
  }

  carryOut({ record, facts }: RecordedCall): void {
    this.#answers.begin(facts);
    if (this.#reports !== null && record.kind !== 'update' && record.kind !== 'stepFailed') {
      throw badLog(`has reports for an update, followed by the record ${record.kind}`);
    }
    switch (record.kind) {
      case 'schedule':
        this.#schedule();
        break;
      case 'add':
        this.#add(record);
        break;
      case 'update':
        this.#update(record);
        break;
      case 'stepFailed':
        this.#scheduler.failStep(this.#planOf(record.numEntries), this.#drainReports());
        break;
      case 'replacedDrafts': {
        const plan = this.#waiting.find(({ step }) => step === record.step);
        this.#scheduler.replaceDraftTokens(requirePlan(plan), record);
        break;
      }
      case 'drafts':
        this.#scheduler.updateDraftTokens(requirePlan(this.#last), record);
        break;
      case 'transfers':
        if (record.withUpdate) this.#reports = record.output;
        else this.#scheduler.updateTransfers(record.output);
        break;
      default:
        feed(this.#scheduler, record);
    }
    this.#answers.end();
  }

  #schedule(): void {
    const plan = this.#scheduler.schedule();
    // Plan objects are reused, so this one may be here from an earlier step.
    this.#waiting = this.#waiting.filter((each) => each !== plan);
    this.#waiting.push(plan);
    this.#last = plan;
    this.#onPlan(plan);
  }

  #add({ input, constrained }: LogRecord & { kind: 'add' }): void {
    let handle = 0;
    const grammar = constrained ? { grammar: recordedGrammar(this.#answers, () => handle) } : {};
    handle = this.#scheduler.add({ ...input, ...grammar });
  }

  #update({ counts, tokens, errors }: LogRecord & { kind: 'update' }): void {
    const result = errors === undefined ? { counts, tokens } : { counts, tokens, errors };
    this.#scheduler.update(this.#planOf(counts.length), result, this.#drainReports());
  }

  /**
   * The plan that a recorded update belongs to: the oldest in flight, or the oldest empty one. The log does not say
   * which of several empty plans was updated, and the decisions are the same for each. With the oldest, every empty
   * plan that still waited in the recorded run waits here too.
   */
  #planOf(numEntries: number): Plan {
    this.#waiting = this.#waiting.filter(({ awaitsUpdate }) => awaitsUpdate);
    return requirePlan(
      this.#waiting.find(({ totalTokens }) => (numEntries === 0 ? totalTokens === 0 : totalTokens > 0)),
    );
  }

  #drainReports(): ParsedOutput | null {
    const reports = this.#reports;
    this.#reports = null;
    return reports;
  }
}

/** Carries out one recorded input that concerns no plan. */
function feed(scheduler: Scheduler, record: RecordedCall['record']): void {
  switch (record.kind) {
    case 'chunk':
      scheduler.addChunk(record.handle, record.input);
      return;
    case 'end':
      scheduler.endSession(record.handle);
      return;
    case 'abort':
      if (record.handles.length === 0) scheduler.abortAll();
      else scheduler.abort(record.handles);
      return;
    case 'fence':
      scheduler.fenceTransfers(record.child, record.begunStep);
      return;
    case 'reset':
      scheduler.resetPrefixCache({
        resetRunning: record.resetRunning,
        resetConnector: record.resetConnector,
      });
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

/** The options of the scheduler that wrote the log, and the recorded facts about its connector. */
function optionsOf(
  header: LogHeader | undefined,
): Omit<SchedulerOptions, 'connector'> & { connector: LogHeader['connector'] } {
  const { hashSeed, connector = null, ...rest } = requireHeader(header);
  return { ...optionsAgain(rest), hashSeed: new Uint8Array(Buffer.from(hashSeed, 'hex')), connector };
}

function requireHeader(header: LogHeader | undefined): LogHeader {
  // A log from before there were groups names none.
  if (typeof header?.hashSeed === 'string') return { ...header, kvGroups: header.kvGroups ?? null };
  throw badLog('does not begin with the header of a scheduler');
}

function requirePlan(plan: Plan | undefined): Plan {
  if (plan !== undefined) return plan;
  throw badLog('updates a step that it did not schedule');
}

function badLog(problem: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_LOG', `the log ${problem}`);
}

/**
 * A grammar that gives its recorded answers.
 * @param handleOf the handle of its request, known by the time of the first question
 */
function recordedGrammar(answers: RecordedAnswers, handleOf: () => number): Grammar {
  const ask = (question: 'ready' | 'acceptTokens' | 'validateTokens'): number => {
    const answer = answers.next(handleOf(), question);
    if (typeof answer !== 'number') return 0;
    if (answer < 0) throw new Error('as recorded');
    return answer;
  };
  return {
    // The answer that a grammar is not ready yet is not recorded.
    ready: () => answers.isNext(handleOf(), 'ready') && ask('ready') === 1,
    acceptTokens: () => ask('acceptTokens') === 1,
    validateTokens: () => ask('validateTokens'),
  };
}
