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
 * A message is a plain object of its own, made only while somebody listens. `id` is the name that the client gave to the request,
 * `handle` the number of this one incarnation of it.
 */
export interface ChannelPayloads {
  /** The scheduler has taken a request. */
  'blockstep:request:add': {
    readonly id: string;
    readonly handle: number;
    /** Tokens. */
    readonly numPromptTokens: number;
  };
  /** The next chunk of a session has begun. */
  'blockstep:request:chunk': {
    readonly id: string;
    readonly handle: number;
    /** Tokens of the session up to the end of the chunk, the answers before it included. */
    readonly numPromptTokens: number;
    /** Tokens of the chunk alone. */
    readonly numTokens: number;
  };
  /** A request has got a place in a step, for the first time or again. */
  'blockstep:request:admit': {
    readonly id: string;
    readonly handle: number;
    /** Tokens that need not be computed: found in the prefix cache, or brought by a connector. */
    readonly numComputedTokens: number;
    /** The request ran before and was preempted. */
    readonly resumed: boolean;
  };
  /** A request has lost its blocks to others. It is computed again later. */
  'blockstep:request:preempt': {
    readonly id: string;
    readonly handle: number;
  };
  /** A request has ended. */
  'blockstep:request:finish': {
    readonly id: string;
    readonly handle: number;
    readonly reason: 'stop' | 'length' | 'abort' | 'error';
    /** Tokens; of a session those of its last answer. */
    readonly numOutputTokens: number;
  };
  /** The scheduler has made a plan, also an empty one. */
  'blockstep:step': {
    /** Number of the step, from 0. */
    readonly step: number;
    readonly numRequests: number;
    /** Tokens that the step computes. */
    readonly totalTokens: number;
    /** Blocks that are free once the plan is made. */
    readonly freeBlocks: number;
  };
  /** An event that a correct peer would not send was skipped and counted. */
  'blockstep:anomaly': {
    readonly reason: AnomalyReason;
    /** In words for people: they may change. */
    readonly detail: string;
  };
  /** The engine has taken a request: `Engine.submit`. */
  'blockstep:request:submit': {
    readonly id: string;
    readonly handle: number;
  };
  /** A client has stopped its request: `RequestStream.stop`. Its `blockstep:request:finish` says `abort`. */
  'blockstep:request:stop': {
    readonly id: string;
    readonly handle: number;
    /** What the client gave as the reason; null if nothing. */
    readonly stopReason: string | number | null;
  };
  /** The engine has taken the executor's answer to a step. */
  'blockstep:engine:step': {
    readonly step: number;
    readonly numRequests: number;
    /** Tokens that the step computed. */
    readonly totalTokens: number;
    /** Milliseconds from the submission of the step to its answer. */
    readonly latencyMs: number;
    /** The step failed as a whole. */
    readonly failed: boolean;
  };
  /** The executor has answered what cannot be read, or is wrong for some rows. */
  'blockstep:engine:wrong-answer': {
    readonly step: number;
    /** In words for people: they may change. */
    readonly detail: string;
  };
  /** A method of a connector's worker threw, or answered what cannot be read. */
  'blockstep:engine:worker-failure': {
    readonly rank: number;
    /** Name of the method. */
    readonly method: string;
    /** In words for people: they may change. */
    readonly detail: string;
  };
  /** The engine has become healthy or unhealthy. */
  'blockstep:engine:health': {
    readonly healthy: boolean;
    /** Why it is not healthy, in words; empty if it is. */
    readonly reasons: readonly string[];
  };
}

/** The name of a diagnostics channel. */
export type ChannelName = keyof ChannelPayloads;

/** A channel of Node whose messages are checked by the compiler. */
interface PayloadChannel<Name extends ChannelName> {
  readonly name: string | symbol;
  /** Ask this first, and make the message only then. */
  readonly hasSubscribers: boolean;
  publish(message: ChannelPayloads[Name]): void;
  subscribe(listener: (message: ChannelPayloads[Name], name: string | symbol) => void): void;
  unsubscribe(listener: (message: ChannelPayloads[Name], name: string | symbol) => void): unknown;
}

function open<Name extends ChannelName>(name: Name): PayloadChannel<Name> {
  return channel(name) as PayloadChannel<Name>;
}

/** Every channel, for those who publish. */
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
