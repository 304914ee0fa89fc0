import { badArgument, show } from '../../base/errors.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';

/** A value of a knob: a number, or one of its words. */
export type KnobValue = number | string;

/** An option that a sweep varies. */
export interface Knob {
  readonly option: keyof SchedulerOptions;
  /** The words that stand for values of the option; null: the values are numbers. */
  readonly words: Readonly<Record<string, unknown>> | null;
}

const ON_OFF = { on: true, off: false };

/** The options that can be varied, by the name of their flag. */
export const KNOBS: Readonly<Record<string, Knob>> = {
  'max-num-seqs': { option: 'maxNumSeqs', words: null },
  'max-num-batched-tokens': { option: 'maxNumBatchedTokens', words: null },
  'block-size': { option: 'blockSize', words: null },
  'num-blocks': { option: 'numBlocks', words: null },
  'long-prefill-token-threshold': { option: 'longPrefillTokenThreshold', words: null },
  'enable-chunked-prefill': { option: 'enableChunkedPrefill', words: ON_OFF },
  'enable-prefix-caching': { option: 'enablePrefixCaching', words: ON_OFF },
  policy: { option: 'policy', words: { fcfs: 'fcfs', priority: 'priority' } },
  'pipeline-depth': { option: 'pipelineDepth', words: null },
  'num-speculative-tokens': { option: 'numSpeculativeTokens', words: null },
};

/** The values that a sweep gives to each knob. */
export type Sweep = ReadonlyMap<string, readonly KnobValue[]>;
/** One point of a sweep: the value of each knob. */
export type Point = Readonly<Record<string, KnobValue>>;

/** Most points of a sweep. More are a mistake. */
export const MOST_POINTS = 20_000;
const NAMES = Object.entries(KNOBS).map(([name, { words }]) =>
  words === null ? name : `${name} (${Object.keys(words).join('|')})`,
);
const EXPECTED = `knobs such as max-num-seqs=64..512,block-size=16|32: one of ${NAMES.join(', ')}; a..b doubles from a to b, a..b+c goes on by c; k is 1024`;

/**
 * Parses a sweep: `max-num-seqs=64..512,policy=fcfs|priority`.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an invalid sweep, and for more than 20,000 points
 */
export function parseSweep(text: string): Sweep {
  const sweep = new Map<string, readonly KnobValue[]>();
  for (const part of text.split(',')) {
    const [name, values, ...rest] = part.trim().split('=');
    if (values === undefined || rest.length > 0 || !Object.hasOwn(KNOBS, name) || sweep.has(name))
      throw badArgument('sweep', show(part), EXPECTED);
    const { words } = KNOBS[name];
    const parse = (each: string): KnobValue[] => {
      if (words === null) return parseNumbers(each, part);
      if (Object.hasOwn(words, each)) return [each];
      throw badArgument('sweep', show(part), EXPECTED);
    };
    sweep.set(name, [...new Set(values.split('|').flatMap(parse))]);
  }
  const points = [...sweep.values()].reduce((product, values) => product * values.length, 1);
  if (points > MOST_POINTS) throw badArgument('sweep', `${points} points`, `at most ${MOST_POINTS}`);
  return sweep;
}

function parseNumbers(text: string, part: string): number[] {
  const found = /^(\d+k?)(?:\.\.(\d+k?)(?:\+(\d+k?))?)?$/.exec(text);
  if (found === null) throw badArgument('sweep', show(part), EXPECTED);
  const [from, to, by] = found.slice(1).map((each) => (each === undefined ? undefined : amount(each)));
  if (to === undefined) return [from!];
  if (to < from! || from === 0 || by === 0) throw badArgument('sweep', show(part), EXPECTED);
  if (by !== undefined && (to - from!) / by > MOST_POINTS)
    throw badArgument('sweep', show(part), `at most ${MOST_POINTS} points`);
  const values: number[] = [];
  for (let at = from!; at < to; at = by === undefined ? 2 * at : at + by) values.push(at);
  return [...values, to];
}

function amount(text: string): number {
  return text.endsWith('k') ? 1024 * Number(text.slice(0, -1)) : Number(text);
}

/** All points of a sweep, in the order of its values. */
export function pointsOf(sweep: Sweep): Point[] {
  let points: Point[] = [{}];
  for (const [name, values] of sweep) {
    points = points.flatMap((point) => values.map((value) => ({ ...point, [name]: value })));
  }
  return points;
}

/** The scheduler's options at a point. */
export function optionsAt(base: Omit<SchedulerOptions, 'now'>, point: Point): Omit<SchedulerOptions, 'now'> {
  const options: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(point)) {
    const { option, words } = KNOBS[name];
    options[option] = words === null ? value : words[value];
  }
  // The pool keeps its size in tokens. Larger blocks are fewer, unless the sweep sets the number of
  // blocks.
  const blockSize = point['block-size'];
  if (typeof blockSize === 'number' && point['num-blocks'] === undefined) {
    const tokens = base.numBlocks * (base.blockSize ?? 16);
    options['numBlocks'] = Math.max(2, Math.floor(tokens / blockSize));
  }
  return options as unknown as Omit<SchedulerOptions, 'now'>;
}
