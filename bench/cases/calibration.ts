// A bare loop, and an empty native call: the speed of the machine in the same minute.
import { Core } from '../../src/core/core.js';
import { hashSeedBytes } from '../../src/scheduler/options/hash-seed.js';
import { type Effort, measure } from '../rows/measure.js';
import { BARE_LOOP, type Row, timeRow } from '../rows/row.js';
import { HASH_SEED } from '../workloads/workloads.js';

export const CALIBRATION_EFFORT: Effort = { samples: 8000, warmup: 2000 };

/** Requests of the bare loop. */
const SIZE = 256;
const CALLS = 1000;
const LIMIT = 2 ** 30;

export const NATIVE_CALL = 'empty native call';

/**
 * The speed of this machine in the same minute, for comparison with the other figures. It runs the
 * bare loop below, and a call through Node-API that finds nothing to do.
 */
export function benchCalibration(effort: Effort): Row[] {
  const loop = timeRow('calibration', BARE_LOOP, measure({ run: bareLoop() }, effort), SIZE);
  const core = new Core({
    numBlocks: 2,
    blockSize: 16,
    numRows: 1,
    maxBlocksPerRow: 1,
    maxEntries: 1,
    maxModelLen: 16,
    enablePrefixCaching: true,
    hashSeed: hashSeedBytes(HASH_SEED),
  });
  const { native } = core;
  const calls = () => {
    for (let i = 0; i < CALLS; i++) native.flush();
    return undefined;
  };
  const fewer = { samples: effort.samples / 8, warmup: effort.warmup / 8 };
  const call = timeRow('calibration', NATIVE_CALL, measure({ run: calls, batch: CALLS }, fewer));
  core.dispose();
  return [loop, call];
}

/** A request with only those fields that a decode step touches. */
class BareRequest {
  numTokens: number;
  numComputedTokens: number;
  numPlaceholders = 0;
  numDrafts = 0;
  finishReason = 0;
  isPrefillChunk = false;
  lastStep = -2;
  firstTokenAt = -1;
  readonly minStopTokens = 0;
  readonly eosTokenId = 2;
  readonly stopTokenIds: readonly number[] | null = null;
  readonly lengthLimit = LIMIT;
  readonly slot: number;

  constructor(slot: number) {
    this.slot = slot;
    this.numTokens = 513 + (slot % 16);
    this.numComputedTokens = this.numTokens - 1;
  }
}

/**
 * A decode step without blocks, hashes, native code, checks and queues: about the least that a scheduler in TypeScript could cost.
 * Over 256 request objects it takes the branches that vLLM takes for a plain decode, in `schedule`,
 * `_update_after_schedule` and `update_from_output`. It writes a plan, the new tokens and the
 * output rows to typed arrays.
 */
export function bareLoop(): () => undefined {
  const requests = Array.from({ length: SIZE }, (_, slot) => new BareRequest(slot));
  const [slots, scheduled, computed, offsets, counts] = Array.from({ length: 5 }, () => new Int32Array(SIZE));
  const appended = new Int32Array(2 * SIZE);
  const reasons = new Uint8Array(SIZE);
  const sampled = new Int32Array(SIZE).fill(7);
  const planned: BareRequest[] = [...requests];
  let step = 0;

  const plan = (): number => {
    let budget = 8192;
    let entries = 0;
    for (let i = 0; i < requests.length && budget > 0; i++) {
      const request = requests[i];
      let numNew =
        request.numTokens + request.numDrafts + request.numPlaceholders - request.numComputedTokens;
      if (numNew > budget) numNew = budget;
      if (numNew > LIMIT - request.numComputedTokens) numNew = LIMIT - request.numComputedTokens;
      if (numNew <= 0) continue;
      if (planned[entries] !== request) planned[entries] = request;
      slots[entries] = request.slot;
      scheduled[entries] = numNew;
      computed[entries] = request.numComputedTokens;
      entries++;
      budget -= numNew;
    }
    return entries;
  };
  const advance = (entries: number): void => {
    for (let i = 0; i < entries; i++) {
      const request = planned[i];
      request.numComputedTokens += scheduled[i];
      request.lastStep = step;
      request.isPrefillChunk = request.numComputedTokens < request.numTokens + request.numPlaceholders;
    }
  };
  const apply = (entries: number, now: number): void => {
    for (let i = 0; i < entries; i++) {
      const request = planned[i];
      if (request.finishReason !== 0 || request.isPrefillChunk) continue;
      const token = sampled[i];
      request.numTokens++;
      appended[2 * i] = request.slot;
      appended[2 * i + 1] = token;
      reasons[i] = stopReason(request, token);
      if (request.firstTokenAt < 0) request.firstTokenAt = now;
      offsets[i] = i;
      counts[i] = 1;
    }
  };
  return () => {
    const entries = plan();
    advance(entries);
    apply(entries, step);
    step++;
  };
}

function stopReason(request: BareRequest, token: number): number {
  if (request.numTokens < request.minStopTokens) return 0;
  if (token === request.eosTokenId) return 1;
  if (request.stopTokenIds?.includes(token)) return 1;
  return request.numTokens >= request.lengthLimit ? 2 : 0;
}
