// Steps with a connector of several: its cases of `steps.ts`.
import { MultiConnector, MultiWorker } from '../../../src/connectors/multi/index.js';
import type { EngineOptions } from '../../../src/index.js';
import { atWork } from '../lease/steps.js';
import { offloadSides } from '../offload/steps.js';
import { embeddedSides } from '../store/steps.js';
import type { Sides } from '../support/decodes.js';
import { plainCase, type StepCase } from '../support/step-case.js';

type Made = Pick<EngineOptions, 'connector' | 'workers'>;

/** Several connectors as one, on one rank. */
function together(...all: readonly Made[]): Made {
  const children = all.map(({ connector }, i) => ({ name: `part ${i}`, connector: connector as never }));
  const workers = all.map(({ workers: own }) => (own as readonly never[])[0]);
  return {
    connector: new MultiConnector({ children, numRanks: 1 }),
    workers: [new MultiWorker({ children: workers })],
  };
}

function idleSides(numBlocks: number): Sides {
  const parts = [offloadSides(numBlocks, false), embeddedSides(numBlocks, false)];
  const check = (numSteps: number): void => {
    for (const part of parts) part.check?.(numSteps);
  };
  return { ...together(...parts), check };
}

export const MULTI_STEPS: readonly StepCase[] = [
  plainCase('offload and store as one, idle', 'alike', idleSides),
  {
    name: 'lease, offload and store as one, at work',
    texts: 'spread',
    needsPause: true,
    make: (numSteps) =>
      atWork(
        numSteps,
        (lease) => (numBlocks) =>
          together(lease(numBlocks), offloadSides(numBlocks, true), embeddedSides(numBlocks, true)),
      ),
  },
];
