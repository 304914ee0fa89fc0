import type { SchedulerOptions } from '../../../src/index.js';
import { ConnectedLife } from '../../support/connector/connected-life.js';
import { describePlan } from '../../support/driver.js';
import { describeGroups, firstDifference, sinksInto } from './twins.js';

/** How connected twins live, and how often their states are read. */
export interface ConnectedTwinOptions {
  pipelineDepth?: 1 | 2 | 3;
  kvGroups?: SchedulerOptions['kvGroups'];
  /** The twins write a log, and a sink gets their KV cache events. */
  isHeard?: boolean;
  readEvery?: number;
}

interface Twin {
  readonly life: ConnectedLife;
  readonly said: string[];
  numRepeated: number;
}

/**
 * Two schedulers with a connector that live the same random life, one of them without a steady
 * decode. After each event their plans, the metadata of these plans and all calls of their
 * connectors must be the same. Now and then everything readable of them must be the same too.
 */
export class ConnectedTwins {
  readonly #twins: readonly [Twin, Twin];
  readonly #readEvery: number;

  constructor(
    seed: number,
    { pipelineDepth = 1, kvGroups = null, isHeard = false, readEvery = 50 }: ConnectedTwinOptions = {},
  ) {
    const numBlocks = 80 * (kvGroups?.length ?? 1);
    const roomy = { numBlocks, maxModelLen: 64, numSpeculativeTokens: 0, pipelineDepth, kvGroups };
    this.#twins = [true, false].map((steadyDecode) => born(seed, { ...roomy, steadyDecode }, isHeard)) as [
      Twin,
      Twin,
    ];
    this.#readEvery = readEvery;
  }

  /** Plans that were repeated. */
  get numRepeated(): number {
    return this.#twins[0].numRepeated;
  }

  /** @returns the first difference; null if there was none */
  run(events: number): string | null {
    for (let i = 1; i <= events; i++) {
      for (const { life } of this.#twins) life.event();
      const [a, b] = this.#twins.map((twin) => lines(twin, i % this.#readEvery === 0));
      const difference = firstDifference(a, b);
      if (difference !== null) return `event ${i}: ${difference}`;
    }
    return this.#twins[1].numRepeated === 0 ? null : 'the twin without a steady decode has one';
  }
}

function born(seed: number, options: object, isHeard: boolean): Twin {
  const said: string[] = [];
  const { log = null, kvEvents = null } = isHeard ? sinksInto(said) : {};
  const onPlan: ConstructorParameters<typeof ConnectedLife>[2] = (plan) => {
    if (plan.repeats > 0) twin.numRepeated++;
    const { connectorMetadata, lacksMetadata, takenBlocks, releasedHandles, step } = plan;
    const due = lacksMetadata ? undefined : JSON.stringify({ step });
    if (JSON.stringify(connectorMetadata) !== due)
      throw new Error(`step ${step} has another step's metadata`);
    const told = JSON.stringify([connectorMetadata, lacksMetadata, [...takenBlocks], releasedHandles]);
    said.push(`${describePlan(plan)} ${describeGroups(plan)} ${told}`);
  };
  const twin: Twin = {
    life: new ConnectedLife(seed, log, onPlan, { ...options, kvEvents }, true),
    said,
    numRepeated: 0,
  };
  return twin;
}

/**
 * The lines and calls since the last time; with all readable data of the scheduler, if it is read.
 */
function lines({ life: { connector, scheduler }, said }: Twin, isRead: boolean): string[] {
  const all = [...said.splice(0), ...connector.calls.splice(0)];
  if (!isRead) return all;
  scheduler.verify();
  const rows = scheduler
    .inspect()
    .requests.map(({ id, status, numTokens, numComputedTokens, slot }) =>
      JSON.stringify([id, status, numTokens, numComputedTokens, [...scheduler.core.tokens(slot)]]),
    );
  return [...all, ...rows, JSON.stringify(scheduler.stats()), String(scheduler.core.native.digest())];
}
