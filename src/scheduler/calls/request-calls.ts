import { addRequest } from '../life/add-request.js';
import { addChunk as addToSession, endSession as endInput } from '../life/chunks.js';
import type { RequestInput, TakenRequest } from '../request/request.js';
import type { ChunkInput, ChunkOutcome, EndOutcome } from '../request/session.js';
import { getOpenSession } from '../state/guards.js';
import type { SchedulerCalls } from './scheduler-calls.js';
import { completeChunk, takeChunk, takeParams, takeRequest } from './take-request.js';
import { takeKey } from './validate.js';

/** See `Scheduler.add`. */
export function add(calls: SchedulerCalls, input: RequestInput): number {
  return calls.enter(() => {
    const s = calls.state;
    let taken: TakenRequest;
    let handle: number;
    try {
      taken = takeRequest(s, input);
      calls.admitNew(taken);
      const { prompt, adapter = '', cacheSalt = '' } = taken;
      handle = s.core.native.add(prompt, adapter, cacheSalt);
    } catch (error) {
      const params = s.connector === null ? null : paramsOf(input);
      if (params !== null) s.connector?.tellRefused(params);
      throw error;
    }
    calls.log?.add(s.now, taken);
    addRequest(s, taken, handle);
    return handle;
  });
}

/** See `Scheduler.giveBack`. */
export function giveBack(calls: SchedulerCalls, transferParams: Readonly<Record<string, unknown>>): void {
  calls.enter(() => calls.state.connector?.tellRefused(takeParams(transferParams)));
}

/** The transfer params of a request that was refused, whatever else is wrong with it; null if they are none. */
function paramsOf(input: RequestInput): Readonly<Record<string, unknown>> | null {
  try {
    const { transferParams } = input;
    return transferParams === undefined ? null : takeParams(transferParams);
  } catch {
    return null;
  }
}

/** See `Scheduler.addChunk`. */
export function addChunk(calls: SchedulerCalls, key: string | number, chunk: ChunkInput): ChunkOutcome {
  return calls.enter(() => {
    const s = calls.state;
    const named = takeKey(key);
    const taken = takeChunk(chunk);
    const request = getOpenSession(s, named, 'chunk');
    if (request === undefined) return 'skipped';
    const complete = completeChunk(s, request, taken);
    calls.admitChunk(complete, request);
    calls.log?.chunk(s.now, request.handle, complete);
    return addToSession(s, request, complete);
  });
}

/** See `Scheduler.endSession`. */
export function endSession(calls: SchedulerCalls, key: string | number): EndOutcome {
  return calls.enter(() => {
    const s = calls.state;
    const request = getOpenSession(s, takeKey(key), 'end');
    if (request === undefined) return 'skipped';
    calls.log?.end(s.now, request.handle);
    return endInput(s, request);
  });
}
