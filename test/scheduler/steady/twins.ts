import type { Plan } from '../../../src/index.js';
import type { KvEvent, KvEventSink } from '../../../src/scheduler/events/kv-event.js';
import { RecordKind } from '../../../src/scheduler/log/log.js';
import type { LogSink, SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { Request } from '../../../src/scheduler/request/request.js';
import { describePlan } from '../../support/driver.js';
import { Life } from '../random-life.js';

/**
 * The output of a scheduler in its life so far, and the number of its steps that were a steady
 * decode in part or whole.
 */
interface Record {
  readonly life: Life;
  readonly said: string[];
  numSteady: number;
  numRepeated: number;
}

/** How twins live: the other options, and how often their states are read. */
export interface TwinOptions {
  options?: Partial<SchedulerOptions>;
  converses?: boolean;
  /** The twins write a log. */
  logs?: boolean;
  /** A sink gets their KV cache events. */
  tells?: boolean;
  /**
   * Their states are read after so many events; a read makes native code carry out its queued
   * calls.
   */
  readEvery?: number;
}

/**
 * Two schedulers that live the same random life, one of them without a steady decode. After each
 * event their plans and outputs must be the same, and now and then everything readable of them.
 */
export class Twins {
  readonly #records: readonly [Record, Record];
  readonly #readEvery: number;
  /** Their common clock: a repeated step does not read it. */
  #now = 0;

  constructor(
    seed: number,
    { options = {}, converses = false, logs = false, tells = false, readEvery = 50 }: TwinOptions = {},
  ) {
    const now = () => this.#now;
    const plain = { pipelineDepth: 1 as const, numSpeculativeTokens: 0, now, ...options };
    this.#records = [true, false].map((steadyDecode) => {
      const said: string[] = [];
      const { log, kvEvents } = sinksInto(said);
      const sinks = { ...(logs && { log }), ...(tells && { kvEvents }) };
      return recorded(new Life(seed, { ...plain, ...sinks, steadyDecode }, converses), said);
    }) as [Record, Record];
    this.#readEvery = readEvery;
  }

  /** Entries of plans that a steady decode has made. */
  get numSteady(): number {
    return this.#records[0].numSteady;
  }

  /** Plans that were repeated. */
  get numRepeated(): number {
    return this.#records[0].numRepeated;
  }

  /** @returns the first difference; null if there was none */
  run(events: number): string | null {
    for (let i = 0; i <= events; i++) {
      this.#now = i;
      for (const { life } of this.#records) i < events ? life.event() : life.drain();
      const difference = this.#compare(i % this.#readEvery === 0 || i === events);
      if (difference !== null) return `event ${i}: ${difference}`;
    }
    return this.#records[1].numSteady === 0 ? null : 'the twin without a steady decode has one';
  }

  #compare(isRead: boolean): string | null {
    const [a, b] = this.#records.map(({ life, said }) => [...said.splice(0), ...(isRead ? read(life) : [])]);
    return firstDifference(a, b);
  }
}

/**
 * Sinks that note every record of a log except the header, which has the option of the steady
 * decode, and every event.
 */
export function sinksInto(said: string[]): { log: LogSink; kvEvents: KvEventSink } {
  const write = (bytes: Uint8Array): void => {
    if (bytes[0] !== RecordKind.header) said.push(`log ${Buffer.from(bytes).toString('hex')}`);
  };
  const onEvents = (events: readonly KvEvent[]): void => {
    said.push(JSON.stringify(['kv events', events]));
  };
  return { log: { write }, kvEvents: { onEvents } };
}

/**
 * The first line of the first twin that the second one, without a steady decode, lacks; null if all
 * are the same.
 */
export function firstDifference(a: readonly string[], b: readonly string[]): string | null {
  const at = a.findIndex((line, i) => line !== b[i]);
  if (at >= 0) return `${a[at]}\n  but without a steady decode ${b[at]}`;
  return a.length === b.length ? null : `without a steady decode there is more: ${b[a.length]}`;
}

/** The part of a plan that KV cache groups add. */
export function describeGroups({ groups, numRequests, droppedBlocks, letGo, blocksToZero }: Plan): string {
  const columns = groups.map(({ numBlocks, numNewBlocks, numCommonPrefixBlocks }) => [
    numCommonPrefixBlocks,
    ...numBlocks.subarray(0, numRequests),
    ...numNewBlocks.subarray(0, numRequests),
  ]);
  return JSON.stringify([columns, [...droppedBlocks], [...letGo], blocksToZero && [...blocksToZero]]);
}

/** Notes each plan and each update of a life. */
function recorded(life: Life, said: string[]): Record {
  const record: Record = { life, said, numSteady: 0, numRepeated: 0 };
  const { driver } = life;
  const { schedule, update, failStep } = driver;
  driver.schedule = (fails) => {
    const plan = schedule.call(driver, fails);
    record.numSteady += plan.numSteady;
    if (plan.repeats > 0) record.numRepeated++;
    record.said.push(describePlan(plan), describeGroups(plan));
    return plan;
  };
  driver.update = (empty) => {
    const outputs = update.call(driver, empty);
    const requests = outputs.requests.slice(0, outputs.length);
    const stops = requests.map(({ stopReason, numTokens, numComputedTokens, firstTokenAt }) => [
      ...[stopReason, numTokens, numComputedTokens, firstTokenAt],
    ]);
    record.said.push(JSON.stringify(['update', driver.last, stops]));
    return outputs;
  };
  driver.failStep = () => {
    const outputs = failStep.call(driver);
    record.said.push(JSON.stringify(['failed', driver.last]));
    return outputs;
  };
  return record;
}

/** Everything that can be read of a scheduler. */
function read({ driver }: Life): string[] {
  const { scheduler } = driver;
  scheduler.verify();
  const { requests, ...places } = scheduler.inspect();
  return [
    JSON.stringify(places, factsOf),
    ...requests.map((request) => JSON.stringify(request, factsOf)),
    JSON.stringify(scheduler.stats()),
    ...requests.map(({ slot }) => JSON.stringify([...scheduler.core.tokens(slot)])),
    String(scheduler.core.native.digest()),
  ];
}

/** Fields of a request that say how it is counted, or link it to others. */
const HOW = [
  ...['tokensBase', 'computedBase', 'placeholdersBase', 'clock', 'nextPublish'],
  ...['prev', 'next', 'heapIndex', 'deadlineIndex'],
];

/** For JSON: of a request what it is, and not how it is counted. */
function factsOf(_key: string, value: unknown): unknown {
  if (!(value instanceof Request)) return value;
  const { numTokens, numComputedTokens, numOutputPlaceholders } = value;
  const fields = Object.entries(value).filter(([name]) => !HOW.includes(name));
  return { numTokens, numComputedTokens, numOutputPlaceholders, ...Object.fromEntries(fields) };
}
