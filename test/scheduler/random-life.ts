// Random lives of a scheduler.
import type { BlockstepError } from '../../src/base/errors.js';
import type { SchedulerOptions } from '../../src/scheduler/options/options.js';
import { Driver, drawPool, prompt, Random } from '../support/driver.js';
import { FakeGrammar } from '../support/fake-grammar.js';
import { mix } from '../support/fake-model.js';

/** Ends texts now and then, for requests that take it for the end. */
const END = 7;

function tokenAt(_input: unknown, position: number, root: number): number {
  const token = mix(root, position);
  return token % 9 === 0 ? END : 1000 + (token % 100_000);
}

/** A configuration under pressure, its features drawn by the seed. */
function drawOptions(random: Random, depth: 1 | 2 | 3): Partial<SchedulerOptions> {
  const method = (['ngram', 'eagle', 'draft_model'] as const)[random.below(3)];
  return {
    pipelineDepth: depth,
    ...drawPool(random),
    longPrefillTokenThreshold: random.chance(30) ? 5 : 0,
    reserveFullIsl: random.chance(50),
    numSpeculativeTokens: random.chance(40) ? 1 + random.below(3) : 0,
    speculativeMethod: method,
  };
}

/** The further options for sessions, grammars and adapters. */
function drawLimits(random: Random): Partial<SchedulerOptions> {
  return {
    maxLoras: random.chance(50) ? 1 + random.below(2) : 0,
    deadlines: random.chance(50) ? { streamingInput: 40, grammar: 25 } : false,
  };
}

interface Live {
  handle: number;
  id: string;
  maxTokens: number;
  grammar: FakeGrammar | null;
  isSession: boolean;
}

/** One seeded life: everything that clients, executors and operators do, in random order. */
export class Life {
  readonly driver: Driver;
  readonly random: Random;
  readonly added: Live[] = [];
  readonly #held: [number, string][] = [];
  readonly #failing: number;
  readonly #converses: boolean;
  #next = 0;

  /** @param converses with sessions, grammars and adapters, some of whose waits have deadlines */
  constructor(seed: number, options: Partial<SchedulerOptions> = {}, converses = false) {
    this.random = new Random(seed);
    this.#failing = [0, 3, 15][this.random.below(3)];
    const drawn = drawOptions(this.random, (1 + (seed % 3)) as 1 | 2 | 3);
    this.#converses = converses;
    const limits = converses ? drawLimits(this.random) : {};
    this.driver = new Driver({ ...drawn, ...limits, ...options }, converses ? { tokenAt } : {});
  }

  run(events: number): void {
    for (let i = 0; i < events; i++) {
      this.event();
      this.driver.scheduler.verify();
    }
    this.drain();
  }

  /** One event, drawn by the seed among the possible events. */
  event(): void {
    const { driver, random } = this;
    if (this.#converses && random.chance(12)) {
      if (random.chance(80)) this.#chunk();
      else this.#end();
      return;
    }
    const dice = random.below(100);
    if (dice < 22) this.#add();
    else if (dice < 60) this.#schedule();
    else if (dice < 88) this.#update();
    else if (dice < 92) this.#abort();
    else if (dice < 94) this.#hold();
    else if (dice < 96) this.#complete();
    else if (dice < 97) driver.scheduler.resetPrefixCache({ resetRunning: random.chance(50) });
    else if (dice < 98) driver.scheduler.pause(random.chance(50) ? 'new' : 'all');
    else driver.scheduler.resume();
  }

  #add(): void {
    const { driver, random } = this;
    const { maxModelLen, numBlocks, blockSize } = driver.scheduler.config;
    const longest = Math.min(maxModelLen - 1, (numBlocks - 1) * blockSize);
    const length = 1 + random.below(Math.min(longest, 24));
    const maxTokens = 1 + random.below(12);
    const id = `r${random.chance(30) ? random.below(4) : this.#next++ + 10}`;
    if (driver.scheduler.get(id) !== undefined) return;
    const converses = this.#converses;
    const grammar = converses && random.chance(25) ? this.#grammar() : null;
    const isSession = converses && random.chance(30);
    const handle = driver.add({
      id,
      prompt: prompt(length, random.below(3)),
      maxTokens,
      minTokens: random.below(maxTokens + 1),
      priority: random.below(3),
      ...(random.chance(20) ? { cacheSalt: 'salt' } : {}),
      ...(random.chance(converses ? 40 : 10)
        ? { adapter: converses ? `lora${random.below(3)}` : 'lora' }
        : {}),
      ...(converses && random.chance(50) ? { eosTokenId: END } : {}),
      ...(converses && random.chance(20) ? { stopTokenIds: [END] } : {}),
      ...(grammar === null ? {} : { grammar }),
      ...(isSession ? { resumable: true } : {}),
    });
    this.added.push({ handle, id, maxTokens, grammar, isSession });
  }

  #grammar(): FakeGrammar {
    const { random } = this;
    return new FakeGrammar({
      notReady: random.below(4),
      allows: random.below(4),
      ...(random.chance(20) ? { accepts: random.below(8) } : {}),
      ...(random.chance(10) ? { throwsAt: 1 + random.below(12) } : {}),
    });
  }

  /** A chunk for any session, alive or not. */
  #chunk(): void {
    const { driver, random } = this;
    const handle = this.#anySession();
    if (handle === undefined) return;
    const maxTokens = 1 + random.below(8);
    const chunk = { prompt: prompt(1 + random.below(7), 20 + random.below(2)), maxTokens, minTokens: 0 };
    try {
      driver.addChunk(handle, chunk);
    } catch (error) {
      if ((error as BlockstepError).code !== 'ERR_BLOCKSTEP_UNFIT') throw error;
    }
  }

  #end(): void {
    const handle = this.#anySession();
    if (handle !== undefined) this.driver.endSession(handle);
  }

  #anySession(): number | undefined {
    const sessions = this.added.filter(({ isSession }) => isSession).slice(-8);
    return sessions[this.random.below(Math.max(1, sessions.length))]?.handle;
  }

  #schedule(): void {
    const { driver, random } = this;
    if (driver.inFlight.length === driver.scheduler.config.pipelineDepth) {
      this.#update();
      return;
    }
    const whole = random.chance(50);
    const fails = (entry: number) => whole || (entry + random.below(2)) % 2 === 0;
    const plan = driver.schedule(random.chance(this.#failing) ? fails : undefined);
    if (plan.totalTokens === 0 && driver.inFlight.length === 0) driver.update(plan);
  }

  #update(): void {
    const { driver } = this;
    if (driver.inFlight.length === 0) return;
    const { errors } = driver.inFlight[0];
    if (errors.length > 0 && errors.every((code) => code === 1)) driver.failStep();
    else driver.update();
  }

  #abort(): void {
    const { driver, random, added } = this;
    if (added.length === 0) return;
    const keys = Array.from({ length: 1 + random.below(2) }, () => {
      const { handle, id } = added[random.below(added.length)];
      return random.chance(50) ? handle : id;
    });
    if (random.chance(3)) driver.abortAll();
    else driver.abort(keys);
  }

  #hold(): void {
    const { driver, random, added } = this;
    if (added.length === 0) return;
    const { handle } = added[random.below(added.length)];
    const owner = `job${random.below(3)}`;
    if (driver.scheduler.hold(handle, 'store', owner)) this.#held.push([handle, owner]);
  }

  #complete(): void {
    if (this.#held.length === 0) return;
    const [[handle, owner]] = this.#held.splice(this.random.below(this.#held.length), 1);
    this.driver.scheduler.complete(handle, 'store', owner);
  }

  /** Ends everything that is under way. */
  drain(): void {
    while (this.#held.length > 0) this.#complete();
    this.driver.scheduler.resume();
    for (const { handle, isSession } of this.added) if (isSession) this.driver.endSession(handle);
    this.driver.run();
  }
}
