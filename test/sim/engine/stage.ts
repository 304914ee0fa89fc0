import type { Engine } from '../../../src/engine/engine.js';
import type { Request } from '../../../src/scheduler/request/request.js';
import { type GroupLimits, keepsTokens } from '../audit/group-rules.js';
import { groupsOf } from '../shared/kv/groups-of.js';
import { SeededRun } from '../shared/seeded-run.js';
import { Kv } from './kv.js';
import { draftPlaces, stepsKept } from './layers.js';
import type { EngineFault, EngineSetup } from './setup.js';
import type { Transcript } from './text.js';

/** An act of the simulation that may have ended a request. */
export type Cause = 'row' | 'step' | 'load' | 'connector' | 'grammar' | 'wait' | 'borrower' | 'broken';

/** Common data of one run: clock, memory, dice, and the facts for the audit. */
export class Stage extends SeededRun<EngineSetup, EngineFault> {
  readonly kv: Kv;
  /** The limits on which its KV cache groups depend. */
  readonly limits: GroupLimits;
  engine!: Engine;
  /** The engine was ended or broken on purpose. Later events are ignored. */
  isOver = false;
  /** The text of every request, by handle. */
  readonly transcripts = new Map<number, Transcript>();
  /** Anomalies that something in this run may have caused. */
  readonly excused = new Set<string>();
  readonly #causes = new Map<number, Set<Cause>>();
  readonly #aborted = new Set<number>();
  readonly #names = new Map<number, string>();

  constructor(setup: EngineSetup) {
    super(setup, 'engine ');
    const { numBlocks, blockSize = 16, maxModelLen = 0, maxNumBatchedTokens = 0 } = setup.engine;
    const { numSpeculativeTokens: spare = 0 } = setup.engine;
    const groups = groupsOf(setup.engine.kvGroups, { blockSize, maxModelLen, spare });
    const drafts = draftPlaces(setup.engine);
    this.limits = {
      groups,
      numBlocks,
      maxModelLen,
      maxNumBatchedTokens,
      drafts,
      stepsKept: stepsKept(setup.engine),
    };
    this.kv = new Kv(numBlocks, groups, setup.tier?.numRanks ?? 1);
  }

  /** The simulation did something that may end this request with an error. */
  blame(handle: number, cause: Cause): void {
    const causes = this.#causes.get(handle) ?? new Set();
    causes.add(cause);
    this.#causes.set(handle, causes);
  }

  /** A request was aborted at a time when nothing else can end it first. */
  aborted(handle: number): void {
    this.#aborted.add(handle);
  }

  /** Its connector gets the end of a request. */
  finished(handle: number, isCut: boolean): void {
    if (isCut || !this.#aborted.has(handle)) return;
    this.broke('I14', `${this.name(handle)} ended well for its connector, and was aborted before`);
  }

  causesOf(handle: number): ReadonlySet<Cause> {
    return this.#causes.get(handle) ?? new Set();
  }

  call(handle: number, id: string): void {
    this.#names.set(handle, `${id}#${this.#names.size}`);
  }

  name(handle: number): string {
    return this.#names.get(handle) ?? `handle ${handle}`;
  }

  /** The blocks that an incarnation holds now, those that are kept for a transfer included. */
  heldBy(handle: number): number[] {
    const { scheduler } = this.engine;
    const request = scheduler.getByHandle(handle);
    if (request === undefined) return [];
    return [...this.#rowsOf(request.slot).flat(), ...(request.keptBlocks ?? [])];
  }

  /** Whether a request that was admitted behind this step holds the block. */
  isTakenSince(block: number, step: number): boolean {
    return this.engine.scheduler
      .inspect()
      .requests.some(
        ({ slot, admittedStep }) => admittedStep > step && this.#rowsOf(slot).flat().includes(block),
      );
  }

  /**
   * The correct KV of a place of a request's text. Of a group of states: the state behind its last
   * token.
   */
  contentsOf(
    { handle, numPromptTokens }: Request,
    { group, index }: { group: number; index: number },
  ): Int32Array {
    const { size } = this.kv.groups[group];
    const text = this.transcripts.get(handle) as Transcript;
    const content = (position: number) => text.content(position, group, numPromptTokens);
    if (!keepsTokens(this.kv.groups[group])) return Int32Array.of(content((index + 1) * size - 1));
    return Int32Array.from({ length: size }, (_, i) => content(index * size + i));
  }

  #rowsOf(slot: number): number[][] {
    const { core } = this.engine.scheduler;
    return this.kv.groups.map((_, group) => Array.from(core.blocks(slot, group)));
  }
}
