// The requests of a proof, and their events: aborts, resets, failing rows and steps, lost blocks.
import type { StopConditions } from '../../../src/scheduler/request/stop-conditions.js';
import { type Sample, UnpagedModel, VOCAB } from './model.js';
import type { RunConfig } from './proof-config.js';
import type { Random } from './random.js';

/** One prompt and how its answer ends; of a session each chunk is one. */
export interface Turn {
  readonly prompt: Int32Array;
  readonly stops: StopConditions;
  readonly seed: number;
  /** The chunk gives no `params`: those of the first turn go on. */
  readonly keepsParams: boolean;
}

export interface WorkItem {
  readonly turns: readonly [Turn, ...Turn[]];
  readonly resumable: boolean;
  readonly priority: number;
  readonly cacheSalt: string | undefined;
  readonly adapter: string | undefined;
}

export interface Answer {
  readonly samples: readonly Sample[];
  readonly reason: 'stop' | 'length';
  /** Tokens of the whole text when it ended. */
  readonly total: number;
}

function drawTokens(random: Random, length: number): number[] {
  return Array.from({ length }, () => random.int(0, VOCAB - 1));
}

function drawStops(random: Random, maxTokens: number): StopConditions {
  return {
    maxTokens,
    ...(random.chance(0.4) ? { eosTokenId: random.int(0, VOCAB - 1) } : {}),
    ...(random.chance(0.1) ? { ignoreEos: true } : {}),
    ...(random.chance(0.3) ? { stopTokenIds: drawTokens(random, 3) } : {}),
    // Always given: a chunk that leaves it out has that of the first turn, which its own maxTokens may not allow.
    minTokens: random.chance(0.2) ? random.int(0, maxTokens) : 0,
  };
}

export class WorkSource {
  readonly #random: Random;
  readonly #config: RunConfig;
  readonly #prefixes: readonly [number[], ...number[][]];
  /** Few seeds and often none, so that equal texts meet in the prefix cache. */
  readonly #seeds: readonly [number, ...number[]];

  constructor(random: Random, config: RunConfig) {
    this.#random = random;
    this.#config = config;
    this.#prefixes = [
      drawTokens(random, config.options.maxModelLen),
      drawTokens(random, config.options.maxModelLen),
    ];
    this.#seeds = [0, random.int(1, 1e6)];
  }

  draw(): WorkItem {
    const random = this.#random;
    const { maxModelLen, numBlocks, blockSize } = this.#config.options;
    const room = this.#config.canOutgrow ? Math.min(maxModelLen, (numBlocks - 1) * blockSize) : maxModelLen;
    const resumable = random.chance(0.25);
    const numTurns = resumable ? random.int(1, 4) : 1;
    const share = Math.floor(room / numTurns);
    const turns = Array.from({ length: numTurns }, (_, i) => this.#turn(share, i, resumable));
    const [first, ...rest] = turns;
    if (first === undefined) throw new Error('no turn was drawn');
    return {
      turns: [first, ...rest],
      resumable,
      priority: random.int(0, 3),
      cacheSalt: random.pick([undefined, undefined, undefined, undefined, 'a', 'b']),
      adapter: random.pick([undefined, undefined, undefined, undefined, undefined, 'lora']),
    };
  }

  #turn(share: number, index: number, resumable: boolean): Turn {
    const random = this.#random;
    const length = random.int(1, Math.max(1, share - 2));
    // Long shared prefixes, so that several requests want the same blocks, also in one step.
    const shared = random.chance(0.75)
      ? length - random.int(1, Math.min(3, length))
      : random.int(0, length - 1);
    const prefix = random.pick(this.#prefixes).slice(0, shared);
    const prompt = Int32Array.from([...prefix, ...drawTokens(random, length - prefix.length)]);
    // A session stays within its share, so that no chunk is refused; any other request may ask for more than the model holds.
    const most = resumable ? Math.max(1, share - length) : Math.max(1, share - length) + random.int(0, 8);
    const maxTokens = random.int(1, most);
    return {
      prompt,
      stops: drawStops(random, maxTokens),
      seed: random.pick([...this.#seeds]),
      keepsParams: index > 0 && random.chance(0.3),
    };
  }
}

/** The answers to a request's turns, computed without blocks. */
export function expectedAnswers(item: WorkItem, maxModelLen: number): Answer[] {
  const model = new UnpagedModel(item.cacheSalt, item.adapter);
  return item.turns.map((turn, i) => {
    // The last token of the answer before was never computed: the text goes on without it.
    if (i > 0) model.dropLast();
    for (const token of turn.prompt) model.push(token);
    return answerTurn(model, stopsOf(item, turn), seedOfTurn(item, turn), maxModelLen);
  });
}

export function seedOfTurn(item: WorkItem, turn: Turn): number {
  return turn.keepsParams ? item.turns[0].seed : turn.seed;
}

/** A stop condition that a chunk leaves out is that of the first turn. */
function stopsOf(item: WorkItem, turn: Turn): StopConditions {
  return { ...item.turns[0].stops, ...turn.stops };
}

function answerTurn(model: UnpagedModel, stops: StopConditions, seed: number, maxModelLen: number): Answer {
  const samples: Sample[] = [];
  for (;;) {
    const sample = model.sample(seed);
    samples.push(sample);
    model.push(sample.token);
    const reason = endOf(sample.token, samples.length, model.length, stops, maxModelLen);
    if (reason !== null) return { samples, reason, total: model.length };
  }
}

function endOf(
  token: number,
  count: number,
  total: number,
  stops: StopConditions,
  maxModelLen: number,
): Answer['reason'] | null {
  if (count < (stops.minTokens ?? 0)) return total >= maxModelLen ? 'length' : null;
  if (token === stops.eosTokenId && stops.ignoreEos !== true) return 'stop';
  if (Array.from(stops.stopTokenIds ?? []).includes(token)) return 'stop';
  return count >= stops.maxTokens || total >= maxModelLen ? 'length' : null;
}
