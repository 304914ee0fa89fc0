import { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';
import { Stage } from '../../../src/pipeline/stage/stage.js';
import { parseStageOptions } from '../../../src/pipeline/stage/stage-options.js';
import { carryRules } from '../../../src/scheduler/options/single-rules.js';
import { leftovers } from '../../support/engine-bench.js';
import { BLOCK_SIZE, MAX_MODEL_LEN, type StageSetup } from './setup.js';
import type { HostileTransport } from './transport.js';
import type { World } from './world.js';

/** Guards of the core scheduler that find nothing, since nobody borrows its requests. */
const GUARDS = ['realigned-status', 'swept-running', 'purged-untracked'];

/**
 * One stage in its place: it dies and is made again, is silent for a while, and computes at times
 * by the seed.
 */
export class Station {
  readonly setup: StageSetup;
  stage!: Stage;
  readonly #world: World;
  readonly #transport: HostileTransport;
  #executor!: ReferenceExecutor;
  /** Until when it does nothing, in milliseconds. */
  #silentUntil = 0;
  /** Steps that were submitted and not computed. */
  #acts: (() => void)[] = [];
  /** When it last looked after its deadlines, and when it could not before that, in milliseconds. */
  lastTick = 0;

  constructor(world: World, transport: HostileTransport, setup: StageSetup) {
    this.#world = world;
    this.#transport = transport;
    this.setup = setup;
    this.#begin();
  }

  get party(): string {
    return `stage/${this.setup.name}`;
  }

  get isSilent(): boolean {
    return this.#silentUntil > this.#world.now;
  }

  /** Dies silently, and begins again. */
  restart(): void {
    this.#world.note(`${this.party} begins anew`);
    this.#transport.cut(this.party);
    this.#checkEngine();
    this.stage.engine.dispose();
    this.#transport.audit.forget(this.party);
    this.#begin();
  }

  /** Does nothing for a while, and reads nothing. */
  silence(ms: number): void {
    this.#world.note(`${this.party} is silent for ${ms} ms`);
    this.#silentUntil = this.#world.now + ms;
    this.#transport.deaf.add(this.party);
  }

  /** One turn. */
  turn(): void {
    if (this.isSilent) return;
    this.#transport.deaf.delete(this.party);
    const world = this.#world;
    const rng = world.rng(`station ${this.setup.name}`);
    this.stage.tick();
    this.#checkDeadline();
    while (this.#acts.length > 0 && (world.isCalm || rng.chance(0.6))) this.#acts.shift()?.();
    if (world.isCalm || rng.chance(0.8)) this.stage.engine.step();
  }

  /** Nothing is left of any request. */
  checkRest(): void {
    const { requests, parked } = this.stage.figures();
    const found = [...leftovers(this.stage.engine)];
    if (requests > 0) found.push(`${requests} requests`);
    if (parked > 0) found.push(`${parked} parked`);
    if (this.stage.nextDeadline !== Number.POSITIVE_INFINITY && this.stage.stats().requests > 0)
      found.push('a deadline');
    if (found.length > 0) this.#world.broke('rest', `${this.party} keeps ${found.join(', ')}`);
    this.#checkEngine();
  }

  #checkEngine(): void {
    this.stage.verify();
    const { anomalies } = this.stage.engine.stats().scheduler;
    for (const guard of GUARDS)
      if (anomalies[guard] !== undefined)
        this.#world.broke('guards', `${this.party}: ${guard} ${anomalies[guard]}`);
    const { numFaults, faults } = this.#executor;
    // An executor that has not seen a failed step finds fault with the steps in flight behind it.
    if (numFaults > 0 && this.#world.setup.faults.stepFails === 0)
      this.#world.broke('kv', `${this.party}: ${JSON.stringify(faults[0])}`);
    this.#world.count('preemptions', this.stage.engine.stats().scheduler.numPreemptions);
  }

  /** All due work was done, so no deadline of the stage lies in the past. */
  #checkDeadline(): void {
    const { nextDeadline } = this.stage;
    if (nextDeadline <= this.#world.now)
      this.#world.broke('stall', `${this.party} leaves a deadline of ${nextDeadline} behind`);
  }

  #begin(): void {
    const world = this.#world;
    const { name, kind, chunkTokens, maxChunksAhead, stallMs, seed, kvGroups, rules, ...rest } = this.setup;
    const { numBlocks, maxNumSeqs, pipelineDepth, enablePrefixCaching } = rest;
    const isWhole = kind === 'generation';
    const sizes = {
      ...{ numBlocks, maxNumSeqs, pipelineDepth, maxModelLen: MAX_MODEL_LEN, blockSize: BLOCK_SIZE },
      maxNumBatchedTokens: (isWhole ? MAX_MODEL_LEN : 24) + (rules.draftSlots ?? 0),
      ...(kvGroups === null ? {} : { kvGroups }),
    };
    const rng = world.rng(`executor ${name}`);
    this.#acts = [];
    const acts = this.#acts;
    // A stage that computes whole inputs has no prefix cache, which the groups' defaults depend on.
    const caching = { enablePrefixCaching: !isWhole && enablePrefixCaching };
    this.#executor = new ReferenceExecutor({
      ...{ ...sizes, ...caching },
      seed,
      onMismatch: 'fail-row',
      defer: (act) => acts.push(act),
    });
    const { execute } = this.#executor;
    const executor = this.#executor;
    this.#executor.execute = (plan, tables) => {
      if (world.strikes('stepFails', rng)) throw new Error('the step fails');
      return execute.call(executor, plan, tables);
    };
    const engine = {
      ...{
        ...sizes,
        ...carryRules(rules),
        executor: this.#executor,
        now: () => world.now,
        executorTimeoutMs: 0,
      },
      ...(isWhole ? {} : { enablePrefixCaching }),
    };
    const options = { name, kind, chunkTokens, maxChunksAhead, stallMs, engine };
    const { deadMs } = world.setup;
    const place = { transport: this.#transport, now: () => world.now, deadMs };
    this.stage = new Stage(parseStageOptions(options), place);
  }
}
