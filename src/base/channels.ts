import { channel } from 'node:diagnostics_channel';
import type { AnomalyReason } from './anomaly-reason.js';

/**
 * Every diagnostics channel of blockstep, and the message that it carries. Subscribe by name:
 *
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 * import type { ChannelPayloads } from 'blockstep';
 *
 * subscribe('blockstep:step', (message) => {
 *   const { numRequests, freeBlocks } = message as ChannelPayloads['blockstep:step'];
 *   console.log(numRequests, freeBlocks);
 * });
 * ```
 *
 * Each message is a new plain object, made only while somebody listens. In every message `id` is
 * the external id of a request, as the client gave it. `handle` is the number of this one
 * incarnation of the request.
 */
export interface ChannelPayloads {
  /**
   * The scheduler has taken a request. Published within `Engine.submit`, so in the asynchronous
   * context of the submitter.
   */
  'blockstep:request:add': {
    /** External id of the request. */
    readonly id: string;
    /** Names this incarnation of the request; `Scheduler.getByHandle` takes it. */
    readonly handle: number;
    /** Tokens of the prompt. */
    readonly numPromptTokens: number;
    /** Most tokens that the request may generate; for a session, in its first answer. */
    readonly maxTokens: number;
  };
  /** The next chunk of a session has begun. */
  'blockstep:request:chunk': {
    /** External id of the session. */
    readonly id: string;
    /** Handle of the session, which all its chunks share. */
    readonly handle: number;
    /**
     * Tokens of the session from its beginning to the end of this chunk, earlier answers included.
     */
    readonly numPromptTokens: number;
    /** Tokens of the chunk alone. */
    readonly numTokens: number;
  };
  /** A request has got a place in a step, for the first time or again. */
  'blockstep:request:admit': {
    /** External id of the request. */
    readonly id: string;
    /** Names this incarnation of the request; `Scheduler.getByHandle` takes it. */
    readonly handle: number;
    /** Tokens that need not be computed: found in the prefix cache, or brought by a connector. */
    readonly numComputedTokens: number;
    /** True: the request ran before and was preempted. */
    readonly resumed: boolean;
  };
  /** A request has lost its blocks to other requests. It is computed again later. */
  'blockstep:request:preempt': {
    /** External id of the request. */
    readonly id: string;
    /** Names this incarnation of the request; `Scheduler.getByHandle` takes it. */
    readonly handle: number;
  };
  /** A request has ended. */
  'blockstep:request:finish': {
    /** External id of the request. */
    readonly id: string;
    /** Names this incarnation of the request; `Scheduler.getByHandle` takes it. */
    readonly handle: number;
    /** Why the request ended; see `FinishReason`. */
    readonly reason: 'stop' | 'length' | 'abort' | 'error';
    /** Generated tokens; for a session, of its last answer. */
    readonly numOutputTokens: number;
    /** Milliseconds from the request's `add` to the first plan with it; null: there was none. */
    readonly firstScheduledMs: number | null;
    /** Milliseconds from its `add` to its first token; null: there was none. */
    readonly firstTokenMs: number | null;
    /** Milliseconds from its `add` to its end. */
    readonly endedMs: number;
  };
  /** The scheduler has made a plan. Empty plans are published too. */
  'blockstep:step': {
    /** Number of the step, from 0. */
    readonly step: number;
    /** Entries of the plan: the requests that the step computes. */
    readonly numRequests: number;
    /** Tokens that the step computes. */
    readonly totalTokens: number;
    /** Free blocks of the pool after the plan was made. */
    readonly freeBlocks: number;
  };
  /** An event that a correct peer would not send was skipped and counted. */
  'blockstep:anomaly': {
    /** The kind of the event, by which `SchedulerStats.anomalies` counts it. */
    readonly reason: AnomalyReason;
    /** In words, for people. The wording may change. */
    readonly detail: string;
  };
  /** The engine has taken a request: `Engine.submit`. */
  'blockstep:request:submit': {
    /** External id of the request. */
    readonly id: string;
    /** Names this incarnation of the request; `Scheduler.getByHandle` takes it. */
    readonly handle: number;
  };
  /**
   * A client has stopped its request: `RequestStream.stop`. Its `blockstep:request:finish` says
   * `abort`.
   */
  'blockstep:request:stop': {
    /** External id of the request. */
    readonly id: string;
    /** Names this incarnation of the request; `Scheduler.getByHandle` takes it. */
    readonly handle: number;
    /** The stop reason that the client gave; null if the client gave none. */
    readonly stopReason: string | number | null;
  };
  /** The engine has taken the executor's answer to a step. */
  'blockstep:engine:step': {
    /** The engine: `Engine.number`. */
    readonly engine: number;
    /** Number of the step, as in `blockstep:step`. */
    readonly step: number;
    /** Entries of the plan of the step. */
    readonly numRequests: number;
    /** Tokens that the step computed. */
    readonly totalTokens: number;
    /** Milliseconds from the submission of the step to its answer. */
    readonly latencyMs: number;
    /** True: the step failed as a whole. */
    readonly failed: boolean;
  };
  /** The executor's answer cannot be read, or is wrong for some rows. */
  'blockstep:engine:wrong-answer': {
    /** Number of the step; -1: no step is at fault, because `Executor.requestsFinished` threw. */
    readonly step: number;
    /** In words, for people. The wording may change. */
    readonly detail: string;
  };
  /** A method of a connector's worker threw, or its answer cannot be read. */
  'blockstep:engine:worker-failure': {
    /** Rank of the worker: its index in the list of workers, from 0. */
    readonly rank: number;
    /** Name of the worker's method. */
    readonly method: string;
    /** In words, for people. The wording may change. */
    readonly detail: string;
  };
  /** The engine has become healthy or unhealthy. */
  'blockstep:engine:health': {
    /** True: the engine has become healthy. False: it has become unhealthy. */
    readonly healthy: boolean;
    /** Why the engine is unhealthy, in words; empty while it is healthy. */
    readonly reasons: readonly string[];
  };
}

/** The name of a diagnostics channel. */
export type ChannelName = keyof ChannelPayloads;

/** A diagnostics channel of Node, with messages that the compiler checks. */
interface PayloadChannel<Name extends ChannelName> {
  readonly name: string | symbol;
  /** Whether anybody listens. Ask this first, so that a message is made only for a listener. */
  readonly hasSubscribers: boolean;
  publish(message: ChannelPayloads[Name]): void;
  subscribe(listener: (message: ChannelPayloads[Name], name: string | symbol) => void): void;
  unsubscribe(listener: (message: ChannelPayloads[Name], name: string | symbol) => void): unknown;
}

function open<Name extends ChannelName>(name: Name): PayloadChannel<Name> {
  return channel(name) as PayloadChannel<Name>;
}

/** Every diagnostics channel, for the code that publishes. */
export const channels = {
  add: open('blockstep:request:add'),
  chunk: open('blockstep:request:chunk'),
  admit: open('blockstep:request:admit'),
  preempt: open('blockstep:request:preempt'),
  finish: open('blockstep:request:finish'),
  step: open('blockstep:step'),
  anomaly: open('blockstep:anomaly'),
  submit: open('blockstep:request:submit'),
  stop: open('blockstep:request:stop'),
  engineStep: open('blockstep:engine:step'),
  wrongAnswer: open('blockstep:engine:wrong-answer'),
  workerFailure: open('blockstep:engine:worker-failure'),
  health: open('blockstep:engine:health'),
} as const;
