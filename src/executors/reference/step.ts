import { parseInt32Array, parseUint8Array } from '../../base/arrays.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { mix, textKey } from '../../base/random.js';
import { TOKEN_MAX } from '../../core/core.js';
import {
  makeStepIo,
  type NativeReferenceConfig,
  StepControl,
  type StepIo,
} from '../../core/native/native-reference.js';
import type { StepTables } from '../../core/tables.js';
import type { ExecutorPlan, ExecutorRequest } from '../../engine/executor/executor.js';
import { EntryKind } from '../../scheduler/plan/plan.js';
import { fillGroups, refuseGroups } from './groups.js';

const NO_BLOCKS = new Int32Array(0);

/** A draft that native code must reject. */
const INVALID_DRAFT = -2;

/** Columns of a plan with one word per entry. Native code is given them as they are. */
const COLUMNS = ['numScheduledTokens', 'numBlocks', 'numNewBlocks', 'numDraftTokens'] as const;

/** The part of host or GPU tables that is read: the tokens of the requests that a step admits. */
export type ReferenceTables = Pick<StepTables, 'readTokens'>;

/**
 * One submitted step: a copy of the plan's data that the computation needs, so that the step can be
 * computed later.
 */
export class ReferenceStep {
  readonly io: StepIo;
  plan!: ExecutorPlan;
  /** The tables as they were submitted: on the host, or on a GPU. */
  tables!: ReferenceTables;
  /** Tokens of the entries that were admitted, one entry after the other. */
  known: Int32Array = new Int32Array(0);
  /** Blocks to zero before the step. */
  zeroed: Int32Array = new Int32Array(0);
  readonly #config: NativeReferenceConfig;
  #knownBuffer: Int32Array = new Int32Array(1024);

  constructor(config: NativeReferenceConfig) {
    this.#config = config;
    this.io = makeStepIo(config);
  }

  /**
   * Copies the plan, and from the tables the tokens of the requests that the plan admits.
   * @throws ERR_BLOCKSTEP_BAD_ARG for a value that is no plan, or a plan larger than the executor
   * was made for
   */
  fill(plan: ExecutorPlan, tables: ReferenceTables | null): void {
    if (typeof plan !== 'object' || plan === null) throw badArgument('plan', show(plan), 'an object');
    if (typeof tables !== 'object' || tables === null)
      throw badArgument('tables', show(tables), 'the step tables');
    const { maxEntries, maxDrafts } = this.#config;
    const n = checkInteger('plan.numRequests', plan.numRequests, 0, maxEntries);
    const stride = checkInteger('plan.maxDrafts', plan.maxDrafts, 0, maxDrafts);
    for (const name of COLUMNS) {
      const column = parseInt32Array(`plan.${name}`, plan[name]);
      checkLength(name, column.length, n);
      this.io[name].set(column.subarray(0, n));
    }
    if (this.#config.groups === undefined) refuseGroups(tables);
    else fillGroups(this.io, this.#config, plan, tables);
    this.#fillZeroed(plan);
    this.#fillDrafts(plan, n, stride);
    this.#fillRequests(plan, n, tables);
    this.io.control[StepControl.numEntries] = n;
    this.plan = plan;
    this.tables = tables;
  }

  /** Copies the blocks to zero. Only a group of states beside full attention has such blocks. */
  #fillZeroed({ blocksToZero }: ExecutorPlan): void {
    this.zeroed =
      blocksToZero === null ? NO_BLOCKS : parseInt32Array('plan.blocksToZero', blocksToZero).slice();
  }

  /**
   * Copies the drafts to verify. An entry's last drafts, which its grammar forbids, become
   * `INVALID_DRAFT`.
   */
  #fillDrafts(plan: ExecutorPlan, n: number, stride: number): void {
    const drafts = parseInt32Array('plan.draftTokens', plan.draftTokens);
    const invalid = parseUint8Array('plan.numInvalidDraftTokens', plan.numInvalidDraftTokens);
    checkLength('draftTokens', drafts.length, n * stride);
    checkLength('numInvalidDraftTokens', invalid.length, n);
    const { maxDrafts } = this.#config;
    const { draftTokens, numDraftTokens } = this.io;
    for (let i = 0; i < n; i++) {
      const count = checkInteger('plan.numDraftTokens', numDraftTokens[i], 0, stride);
      for (let j = 0; j < count; j++) {
        const token = checkInteger('plan.draftTokens', drafts[i * stride + j], -1, TOKEN_MAX);
        draftTokens[i * maxDrafts + j] = j < count - invalid[i] ? token : INVALID_DRAFT;
      }
    }
  }

  #fillRequests(plan: ExecutorPlan, n: number, tables: ReferenceTables): void {
    const kinds = parseUint8Array('plan.kinds', plan.kinds);
    const most = parseUint8Array('plan.maxOutputTokens', plan.maxOutputTokens);
    checkLength('kinds', kinds.length, n);
    checkLength('maxOutputTokens', most.length, n);
    const { requests } = plan;
    if (!Array.isArray(requests)) throw badArgument('plan.requests', show(requests), 'an array');
    checkLength('requests', requests.length, n);
    let numKnown = 0;
    for (let i = 0; i < n; i++) {
      const request = requests[i];
      this.io.handles[i] = checkInteger('handle', request?.handle, 1, Number.MAX_SAFE_INTEGER);
      this.io.kinds[i] = kinds[i];
      this.io.samples[i] = most[i] > 0 ? 1 : 0;
      this.io.numKnown[i] = 0;
      if (kinds[i] === EntryKind.running) continue;
      this.io.numKnown[i] = this.#readKnown(tables, i, numKnown);
      numKnown += this.io.numKnown[i];
      this.#describe(i, request);
    }
    this.known = this.#knownBuffer.subarray(0, numKnown);
  }

  /**
   * Reads the tokens of one entry's request into the buffer, from index `at` on.
   * @returns how many
   */
  #readKnown(tables: ReferenceTables, entry: number, at: number): number {
    const { maxBlocksPerRow, blockSize } = this.#config.groups?.[0] ?? this.#config;
    for (;;) {
      const room = this.#knownBuffer.length - at;
      const most = Math.min(room, maxBlocksPerRow * blockSize);
      const out = this.#knownBuffer.subarray(at);
      const read = room === 0 ? 0 : checkInteger('readTokens()', tables.readTokens(entry, 0, out), 0, most);
      if (read < room) return read;
      const grown = new Int32Array(2 * this.#knownBuffer.length);
      grown.set(this.#knownBuffer);
      this.#knownBuffer = grown;
    }
  }

  #describe(entry: number, request: ExecutorRequest): void {
    const { numPromptTokens, adapter = '', cacheSalt = '' } = request;
    this.io.numPrompt[entry] = checkInteger('numPromptTokens', numPromptTokens, 1, 2 ** 31 - 1);
    this.io.roots[2 * entry] = keyOf('adapter', adapter);
    this.io.roots[2 * entry + 1] = keyOf('cacheSalt', cacheSalt);
  }
}

function keyOf(name: string, text: unknown): number {
  if (typeof text !== 'string') throw badArgument(name, show(text), 'a string');
  return mix(textKey(text), text.length);
}

function checkLength(name: string, length: number, least: number): void {
  if (length < least) throw badArgument(`plan.${name}`, `${length} elements`, `at least ${least} elements`);
}
