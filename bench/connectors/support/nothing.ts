import type { EngineOptions } from '../../../src/index.js';

/** The least that a connector can be: both sides are asked in every step, and have nothing to say. */
export const NOTHING: Pick<EngineOptions, 'connector' | 'workers'> = {
  connector: {
    getNumNewMatchedTokens: () => ({ numTokens: 0, async: false }),
    updateStateAfterAlloc: () => {},
    buildMetadata: () => null,
    requestFinished: () => ({ delayFree: false }),
  },
  workers: [{ getFinished: () => null }],
};
