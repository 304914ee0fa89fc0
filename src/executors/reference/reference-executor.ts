import { BlockstepError } from '../../base/errors.js';
import { bytes, INSPECT, showFacts } from '../../base/inspect.js';
import { MAX_FINDINGS, StepControl } from '../../core/native/native-reference.js';
import type { StepTables } from '../../core/tables.js';
import type { DeviceExecutor, ExecutorPlan, ExecutorResult } from '../../engine/executor/executor.js';
import type { ExecutorLimits } from '../../engine/executor/executor-limits.js';
import type { BlockArena } from '../../transfer/block-arena.js';
import { DeviceRunner, type TablesOnDevice } from './device-runner.js';
import { mismatchError, type ReferenceFault, readFaults } from './faults.js';
import { HostRunner } from './host-runner.js';
import { type MismatchPolicy, type ReferenceExecutorOptions, resolveReferenceOptions } from './options.js';
import type { ReferenceRunner } from './runner.js';
import { ReferenceStep } from './step.js';

/** At least this many of the latest faults are kept. */
const MAX_FAULTS = 1024;

/**
 * An executor without a model that writes and reads real KV memory, and reports every wrong read or
 * write.
 *
 * For every token that a step computes, it writes one entry: token, position, hash of the prefix,
 * owner, generation of the block. The entry goes into KV memory of numBlocks x blockSize entries,
 * at the slot of the slot mapping. Reading begins only when all entries of the step are written.
 * Every sequence is then read back whole through its block table, and the next token is computed
 * from the entries that were read. An unpaged copy of every request holds the expected entries.
 * Every wrong block, stale read and foreign write is therefore found and named; `ReferenceFault`
 * lists the kinds.
 *
 * A text continues as it continued before. The next token is the token that followed the longest
 * earlier occurrence of the text's end. Of equally long occurrences, the earliest counts. If there
 * is none, the next token is a token of the prompt, drawn by seed, length and last token. With
 * `eosTokenId` a text ends before it would copy a generated token, because it would then repeat
 * itself. Drafts follow the same rule, and some of them are wrong. Grammars are ignored, except
 * that they forbid drafts. So a text depends on seed and prompt alone, never on batches, blocks or
 * drafts.
 *
 * With `kvGroups` every group writes and reads through its own tables. A group reads only the
 * entries that a token of its type needs. These are all tokens, the tokens of a window or chunk, or
 * the state after the previous token (Mamba). A text is right only if the reads of all groups are
 * right.
 *
 * Lanes may copy its KV memory, `kv`. `adopt` declares the blocks that they load. A loaded block is
 * good if token, position and prefix are right, whatever request wrote it and at whatever place.
 *
 * Memory: 32 bytes per token of the pool and 20 per block, once they are used. In addition 12 bytes
 * per token of every request with a slot of the request table, until the slot is used again.
 *
 * `Device` is the type of `device`. It follows from the use of the executor: a value of type
 * `Executor` computes on `cpu`, and the compiler refuses other options for it.
 */
export class ReferenceExecutor<Device = string> implements DeviceExecutor {
  readonly usesTables = true;
  /** The sizes that the executor was made for: an engine with other sizes is refused. */
  readonly limits: ExecutorLimits;
  readonly #runner: ReferenceRunner;
  readonly #policy: MismatchPolicy;
  readonly #depth: number;
  /**
   * One more than can be in flight, so that the latest answer stays readable during the next
   * submission.
   */
  readonly #steps: ReferenceStep[];
  #nextStep = 0;
  #faults: ReferenceFault[] = [];
  #numFaults = 0;
  #disposed = false;

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG for a bad option, ERR_BLOCKSTEP_NO_MEMORY,
   * ERR_BLOCKSTEP_NO_NATIVE
   */
  constructor(options: ReferenceExecutorOptions<Device> & { device?: string }) {
    const { native, policy, gpu, limits, defer } = resolveReferenceOptions(options);
    this.limits = limits;
    const read = (step: ReferenceStep): ExecutorResult => this.#readAnswer(step);
    this.#runner = gpu === null ? new HostRunner(native, defer, read) : new DeviceRunner(native, gpu, read);
    this.#policy = policy;
    this.#depth = native.pipelineDepth;
    this.#steps = Array.from({ length: native.pipelineDepth + 1 }, () => new ReferenceStep(native));
  }

  /**
   * The faults found so far, the oldest first: at most 64 of one step, and at least the last 1,024
   * of these. The list is a copy.
   */
  get faults(): ReferenceFault[] {
    return [...this.#faults];
  }

  /** Number of faults found, those not kept included. */
  get numFaults(): number {
    return this.#numFaults;
  }

  /**
   * `cpu`, or the GPU as `cuda:N`. An engine gathers its tables there; your own scheduler should
   * too.
   */
  get device(): Device & string {
    return this.#runner.device as Device & string;
  }

  /**
   * On a GPU, the stream of the computation; else null. The stream ends with the executor, so
   * dispose the scheduler first.
   */
  get stream(): bigint | null {
    return this.#runner.stream;
  }

  /**
   * Memory in use. `arenaBytes`: bytes of the KV memory. `numSequences`: requests with an unpaged
   * copy. `pinnedBytes`: bytes of pinned memory, 0 on the host.
   * @throws ERR_BLOCKSTEP_DISPOSED
   */
  memory(): { arenaBytes: number; numSequences: number; pinnedBytes: number } {
    return this.#runner.memory();
  }

  /**
   * The KV memory, for lanes: `blockSize` x 32 bytes per block, under the block ids of the
   * scheduler. With `kvGroups`, the largest block of a group counts, and a state counts as one
   * token. A lane that copies between two executors needs the same `blockSize`.
   * @throws ERR_BLOCKSTEP_DISPOSED
   */
  get kv(): BlockArena {
    if (this.#disposed) throw disposed();
    return this.#runner.kv;
  }

  /**
   * Declares blocks as loaded for a request. Call it when the lane's job is over and before a step
   * reads the blocks. From then on the blocks are part of the request's cached prefix. Every entry
   * that a step reads there must have the right token, position and prefix.
   *
   * A block counts as loaded only if a lane filled it whole since it was taken last. A block that
   * was skipped, or was written through `kv.buffer`, is found as `unwritten-read`. A block that a
   * lane fills again afterwards, or fills without a declaration, is found as `unexpected-load`.
   * @param handle the request's handle
   * @param blocks ids of the loaded blocks, each once; a load is declared once
   * @throws ERR_BLOCKSTEP_BAD_ARG, and nothing is changed; ERR_BLOCKSTEP_DISPOSED
   */
  adopt(handle: number, blocks: Int32Array): void {
    this.#runner.adopt(handle, blocks);
  }

  /**
   * Computes the next step: now, or later with `latencyMs` and `defer`; always in the order of
   * submission. The plan and its tables must not change until then. The arrays of the answer are
   * reused `pipelineDepth` steps later. Every entry that sampled gets drafts.
   * @throws ERR_BLOCKSTEP_BAD_ARG for a value that is no plan, or tables that do not fit, and
   * nothing was changed. ERR_BLOCKSTEP_PIPELINE_FULL if pipelineDepth steps are waiting.
   * ERR_BLOCKSTEP_KV_MISMATCH, whose `cause` is the list of `ReferenceFault`s.
   * ERR_BLOCKSTEP_DISPOSED
   */
  execute(
    plan: ExecutorPlan,
    tables: StepTables | TablesOnDevice | null,
  ): ExecutorResult | Promise<ExecutorResult> {
    if (this.#disposed) throw disposed();
    if (this.#runner.numPending >= this.#depth) {
      const message = `${this.#runner.numPending} steps wait to be computed already`;
      throw new BlockstepError('ERR_BLOCKSTEP_PIPELINE_FULL', message);
    }
    const step = this.#steps[this.#nextStep];
    step.fill(plan, tables);
    const index = this.#nextStep;
    this.#nextStep = (index + 1) % this.#steps.length;
    try {
      return this.#runner.run(step);
    } catch (error) {
      this.#nextStep = index; // a waiting step keeps its buffers, however many steps are refused
      throw error;
    }
  }

  /**
   * Frees the memory. Waiting steps fail with ERR_BLOCKSTEP_DISPOSED, as does every later call,
   * also of `kv`. The KV memory stays only as long as a lane uses it, or an ArrayBuffer from
   * `kv.buffer` is alive. Idempotent.
   */
  dispose(): void {
    this.#disposed = true;
    this.#steps.length = 0;
    this.#runner.dispose(disposed());
  }

  [INSPECT](depth: number, options: object): string {
    const { numBlocks, blockSize } = this.limits;
    const fixed = { device: this.device, numBlocks, blockSize, faults: this.#numFaults };
    return showFacts('ReferenceExecutor', depth, options, fixed, () => {
      const { numSequences, arenaBytes } = this.memory();
      return { requests: numSequences, kv: bytes(arenaBytes) };
    });
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #readAnswer({ io, plan }: ReferenceStep): ExecutorResult {
    const { tokens, counts, errors, nextDrafts, nextCounts, control } = io;
    const numFindings = control[StepControl.numFindings];
    if (numFindings > 0) {
      const faults = readFaults(io, plan);
      this.#remember(faults, numFindings);
      if (this.#policy === 'fail-step') throw mismatchError(faults, numFindings);
    }
    const drafts = { tokens: nextDrafts, counts: nextCounts };
    return control[StepControl.numErrors] > 0
      ? { tokens, counts, errors, drafts }
      : { tokens, counts, drafts };
  }

  #remember(faults: readonly ReferenceFault[], count: number): void {
    this.#numFaults += count;
    this.#faults.push(...faults);
    if (this.#faults.length > MAX_FAULTS + MAX_FINDINGS) this.#faults = this.#faults.slice(-MAX_FAULTS);
  }
}

function disposed(): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the reference executor was disposed');
}
