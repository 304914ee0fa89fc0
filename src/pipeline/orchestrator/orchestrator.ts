import { randomBytes } from 'node:crypto';
import { addAbortListener } from 'node:events';
import { Anomalies } from '../../base/anomalies.js';
import { type BlockstepError, show } from '../../base/errors.js';
import { isAborted } from '../../engine/streams/submission.js';
import type { PipelineMessage, StageFigures, StageMessage } from '../transport/messages.js';
import { type Connection, stageParty, type Transport } from '../transport/transport.js';
import { type AskHere, Explanations } from './explanations.js';
import { Liveness, type LivenessLimits } from './liveness.js';
import { PipelineRequest } from './pipeline-request.js';
import { type PipelineCalls, PipelineStream } from './pipeline-stream.js';
import { Roster } from './roster.js';
import { SessionInputs } from './session-inputs.js';
import {
  type ParsedPipelineInput,
  parsePipelineInput,
  parseSubmitOptions,
  submissionsOf,
} from './submission.js';

/** Options of an `Orchestrator`. */
export interface OrchestratorParts {
  /** Names of the stages, in order. */
  readonly names: readonly string[];
  readonly transport: Transport;
  readonly now: () => number;
  readonly limits: LivenessLimits;
  /** Whether a stage may be gone, or lose a request, so that the stages must be pinged. */
  readonly pings: boolean;
  /** Maximum number of unfinished requests. */
  readonly maxRequests: number;
}

/**
 * The client's side of a pipeline. It submits each request to all stages at once, receives the
 * stages' messages, and gives each request exactly one end. Messages about ended requests are
 * dropped and counted.
 *
 * Stages in other processes are regularly asked which requests they have. If a stage twice in a row
 * does not know a request that it should have, the request was lost. The stage was restarted, or a
 * message did not arrive. The request then fails, and so do all requests of a stage that does not
 * answer.
 */
export class Orchestrator {
  readonly #parts: OrchestratorParts;
  readonly #party = `client/${randomBytes(6).toString('hex')}`;
  readonly #connection: Connection;
  readonly #liveness: Liveness;
  readonly #explanations: Explanations;
  readonly #anomalies = new Anomalies(false);
  readonly #roster = new Roster();
  readonly #inputs: SessionInputs;
  readonly #calls: PipelineCalls;
  #nextNumber = 1;
  #numLate = 0;
  readonly #ends = { completed: 0, aborted: 0, failed: 0 };

  constructor(parts: OrchestratorParts) {
    this.#parts = parts;
    this.#liveness = new Liveness(parts.names.length, parts.limits, parts.now);
    this.#connection = parts.transport.join(this.#party, {
      receive: (message) => this.#receive(message),
      lost: (from, why) => this.#lost(from, why),
    });
    this.#explanations = new Explanations(parts.names, parts.now, (name, key, ask) =>
      this.#send(name, { kind: 'explain', client: this.#party, key, ask }),
    );
    this.#inputs = new SessionInputs(this.#anomalies, (request, chunk) =>
      this.#sendOf(request, 0, { kind: 'chunk', key: request.key, chunk }),
    );
    this.#calls = {
      abort: (request, reason) => this.#abort(request, reason),
      addChunk: (request, chunk) => this.#inputs.add(request, chunk),
      endInput: (request) => this.#inputs.end(request),
    };
  }

  /** Number of unfinished requests. */
  get size(): number {
    return this.#roster.size;
  }

  /** Whether a client needs `tick`: a request is unfinished, or a question is open. */
  get isAwaited(): boolean {
    return this.#roster.size > 0 || this.#explanations.nextDeadline !== Number.POSITIVE_INFINITY;
  }

  /** See `Pipeline.submit`. */
  submit(input: unknown, options: unknown): PipelineStream {
    const { names, maxRequests, now } = this.#parts;
    const { signal, wants } = parseSubmitOptions(options, names);
    const parsed = parsePipelineInput(input, names);
    const number = this.#nextNumber++;
    const id = parsed.id ?? this.#roster.newId(number);
    this.#roster.checkRoom(id, maxRequests);
    const key = `${this.#party.slice('client/'.length)}.${number}`;
    const request = new PipelineRequest(id, key, names, wants, parsed.timeoutMs, now);
    request.pingsBefore = this.#liveness.numPings;
    if (signal !== null && isAborted(signal)) {
      this.#ends.aborted++;
      request.abort(signal.reason);
    } else this.#begin(request, parsed, signal);
    return new PipelineStream(request, this.#calls);
  }

  /** Aborts requests by id; unknown ones are counted. */
  abort(ids: readonly string[], reason: unknown): void {
    for (const id of ids) {
      const request = this.#roster.byId(id);
      if (request === undefined)
        this.#anomalies.report('abort-unknown', `no unfinished request has id ${id}`);
      else this.#abort(request, reason);
    }
  }

  /** Ends every request. */
  abortAll(reason: unknown): void {
    for (const request of this.#roster.all()) this.#abort(request, reason);
  }

  /** Does the due work: pings, requests that have taken too long, stages that do not answer. */
  tick(): void {
    const { now, pings, names } = this.#parts;
    const time = now();
    for (const request of this.#roster.overdue(time)) {
      const message = `it took ${Math.round(time - request.submittedAt)} ms, more than its timeoutMs`;
      this.#fail(request, null, 'ERR_BLOCKSTEP_REQUEST', message);
    }
    this.#explanations.expire();
    if (!pings) return;
    const number = this.#liveness.nextPing();
    names.forEach((name, stage) => {
      if (number > 0) this.#send(name, { kind: 'ping', client: this.#party, number });
      if (!this.#liveness.isGone(stage)) return;
      const silent = `it has not answered for ${Math.round(this.#liveness.silentFor(stage))} ms`;
      for (const request of this.#roster.all())
        if (!request.hasEndedIn(stage)) this.#fail(request, stage, 'ERR_BLOCKSTEP_STAGE', silent);
    });
  }

  /**
   * When `tick` has work to do, in milliseconds of the clock; Infinity: not before a message
   * arrives.
   */
  get nextDeadline(): number {
    const ping = this.#parts.pings ? this.#liveness.nextDeadline : Number.POSITIVE_INFINITY;
    return Math.min(ping, this.#explanations.nextDeadline, this.#roster.nextDue);
  }

  /** Describes what a request waits for in each stage. */
  explain(id: string, ask: AskHere): Promise<string> {
    const request = this.#roster.byId(id);
    if (request !== undefined) return this.#explanations.explain(request, ask);
    return Promise.resolve(`request ${show(id)} is not known: it was never submitted, or it has ended`);
  }

  /** Returns the counts of the client's side. */
  stats() {
    const silentMs = this.#parts.names.map((_name, stage) => this.#liveness.silentFor(stage));
    const anomalies = this.#anomalies.toObject();
    return { requests: this.#roster.size, ...this.#ends, lateOutputs: this.#numLate, anomalies, silentMs };
  }

  /**
   * For how many milliseconds a stage in another process has been gone; null: it is not known to be
   * gone.
   */
  goneFor(stage: number): number | null {
    return this.#liveness.isGone(stage) ? this.#liveness.silentFor(stage) : null;
  }

  /** The last figures of a stage in another process; null: none yet. */
  figuresOf(stage: number): StageFigures | null {
    return this.#liveness.figuresOf(stage);
  }

  /** Leaves the transport. The caller aborts the requests first. */
  async close(): Promise<void> {
    await this.#connection.close();
  }

  #begin(request: PipelineRequest, parsed: ParsedPipelineInput, signal: AbortSignal | null): void {
    const { names } = this.#parts;
    this.#roster.add(request);
    if (signal !== null) {
      const listener = addAbortListener(signal, () => this.#abort(request, signal.reason));
      request.release = () => listener[Symbol.dispose]();
    }
    if (parsed.resumable) this.#inputs.open(request.key);
    // The last stage gets its submission first. Each stage then knows the request before the
    // previous stage can send a chunk.
    const submissions = submissionsOf(parsed, request, names, this.#party);
    for (let stage = names.length - 1; stage >= 0; stage--)
      if (!this.#sendOf(request, stage, { kind: 'submit', submission: submissions[stage] })) return;
  }

  #receive(message: PipelineMessage): void {
    switch (message.kind) {
      case 'output':
      case 'ended':
      case 'failed':
        this.#hear(message);
        return;
      case 'pong':
        this.#heard(message);
        return;
      case 'explained':
        this.#explanations.answer(message.ask, message.text);
        return;
      case 'taken':
        return;
      default:
        this.#anomalies.report('foreign-message', `a client was sent ${message.kind}`);
    }
  }

  #hear(message: PipelineMessage & { kind: 'output' | 'ended' | 'failed' }): void {
    const request = this.#roster.byKey(message.key);
    const stage = this.#parts.names.indexOf(message.stage);
    if (request === undefined || stage < 0) {
      this.#numLate++;
      return;
    }
    if (message.kind === 'failed') {
      this.#failAs(request, message.stage, message.failure);
      return;
    }
    const fate =
      message.kind === 'output'
        ? request.output(stage, message.number, message.output)
        : request.stageEnded(stage, message.numOutputs, message.end);
    if (fate === 'gap') this.#fail(request, stage, 'ERR_BLOCKSTEP_STAGE', 'some of its outputs did not come');
    else if (fate === 'skipped')
      this.#anomalies.report('foreign-message', `an ${message.kind} of ${message.stage} came twice`);
    else if (request.hasEndedInAll) {
      this.#forget(request);
      this.#ends.completed++;
      request.complete();
    }
  }

  /** A stage has answered a ping, with the keys of its requests. */
  #heard({ stage: name, number, keys, figures }: PipelineMessage & { kind: 'pong' }): void {
    const stage = this.#parts.names.indexOf(name);
    if (stage < 0) return;
    if (!this.#liveness.heard(stage, number, figures)) return;
    const known = new Set(keys);
    for (const key of known)
      if (this.#roster.byKey(key) === undefined) this.#send(name, { kind: 'abort', key });
    for (const request of this.#roster.all())
      if (number > request.pingsBefore && request.pinged(stage, known.has(request.key)))
        this.#fail(request, stage, 'ERR_BLOCKSTEP_STAGE', 'it does not know the request any more');
  }

  /**
   * Messages may have been lost. If they came from one stage, only requests that have not ended in
   * that stage are affected.
   */
  #lost(from: string | null, why: string): void {
    const stage = from === null ? null : this.#parts.names.findIndex((name) => stageParty(name) === from);
    if (stage === -1)
      this.#anomalies.report('foreign-message', `${from} is not a stage of this pipeline: ${why}`);
    else
      for (const request of this.#roster.all())
        if (stage === null || !request.hasEndedIn(stage))
          this.#fail(request, stage, 'ERR_BLOCKSTEP_STAGE', why);
  }

  #abort(request: PipelineRequest, reason: unknown): void {
    if (request.ended) return;
    this.#cancel(request);
    this.#ends.aborted++;
    request.abort(reason);
  }

  #fail(request: PipelineRequest, stage: number | null, code: BlockstepError['code'], message: string): void {
    this.#failAs(request, stage === null ? null : this.#parts.names[stage], { code, message });
  }

  #failAs(
    request: PipelineRequest,
    stage: string | null,
    failure: Parameters<PipelineRequest['fail']>[1],
  ): void {
    if (request.ended) return;
    this.#cancel(request);
    this.#ends.failed++;
    request.fail(stage, failure);
  }

  /** Ends a request in every stage that may have it, and forgets it. */
  #cancel(request: PipelineRequest): void {
    this.#forget(request);
    for (const name of this.#parts.names) this.#send(name, { kind: 'abort', key: request.key });
  }

  #forget(request: PipelineRequest): void {
    this.#roster.remove(request);
    this.#inputs.forget(request.key);
  }

  /**
   * Sends a message of a request. The request fails if the message can never be sent. @returns
   * whether it can be sent
   */
  #sendOf(request: PipelineRequest, stage: number, message: StageMessage): boolean {
    const why = this.#send(this.#parts.names[stage], message);
    if (why !== null)
      this.#fail(request, stage, 'ERR_BLOCKSTEP_REQUEST', `its ${message.kind} cannot be sent: ${why}`);
    return why === null;
  }

  #send(stage: string, message: StageMessage): string | null {
    return this.#connection.send(stageParty(stage), message);
  }
}
