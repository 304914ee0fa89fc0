// Both examples pass; the message of a failing case; bad options.
import { describe, expect, it } from 'vitest';
import { type CaseError, connectorCases } from '../../src/testing/index.js';
import { share, thinned } from '../support/share.js';
import { makeHostTier } from './host-tier.js';
import { makeMemo } from './memo.js';

describe('the example of a host tier', () => {
  const cases = connectorCases({ make: makeHostTier, seeds: share([1], [1], [1, 2]) });
  for (const { name, run } of thinned(cases, 1)) it(name, run);
});

describe('the small example of a connector', () => {
  const cases = connectorCases({ make: makeMemo, seeds: share([1], [1], [1, 2]) });
  for (const { name, run } of thinned(cases, 1, 1)) it(name, run);
});

describe('connectorCases', () => {
  const NAME = 'an ordinary life gives the tokens that it gives without a connector';
  const stumbling: typeof makeMemo = (world) => {
    const made = makeMemo(world);
    made.connector.requestFinished = () => {
      throw new Error('planted');
    };
    return made;
  };

  it('says seed, step, what broke, what led to it, and the call that shows it again', async () => {
    const [first] = connectorCases({ make: stumbling, only: [NAME], seeds: [8, 10] });
    const error = (await first.run().catch((thrown: unknown) => thrown)) as CaseError;
    expect(error).toMatchObject({ name: 'CaseError', caseName: NAME, seed: 8 });
    expect(error.message).toMatch(/seed 8, round \d+, step \d+; pipelineDepth 3, 1 ranks/);
    expect(error.message).toMatch(/requestFinished of r\d+ throws Error: planted/);
    expect(error.message).toMatch(/What led to it:\n(.*\n)*.* comes: \d+ tokens/);
    expect(error.message).toContain(
      `connectorCases({ make, seeds: [8], only: [${JSON.stringify(NAME)}] })[0].run()`,
    );
  });

  it('breaks at the same place each time', async () => {
    const once = async (): Promise<string> => {
      const [first] = connectorCases({ make: stumbling, only: [NAME], seeds: [8] });
      const error = (await first.run().catch((thrown: unknown) => thrown)) as CaseError;
      return error.message.replace(/^ +at .*$/gm, '');
    };
    expect(await once()).toBe(await once());
  });

  it('does not pass a connector that never loads, unless it is said not to', async () => {
    const idle: typeof makeMemo = (world) => {
      const made = makeMemo(world);
      made.connector.getNumNewMatchedTokens = () => ({ numTokens: 0, async: false });
      return made;
    };
    const [first] = connectorCases({ make: idle, only: [NAME], seeds: [1] });
    await expect(first.run()).rejects.toThrow('never loaded anything');
    const [second] = connectorCases({ make: idle, only: [NAME], seeds: [1], loads: false });
    await second.run();
  });

  it.each([
    [null, /options must be/],
    [{}, /make must be a function/],
    [{ make: makeMemo, seed: [1] }, /unknown.*seed|seed/],
    [{ make: makeMemo, seeds: [] }, /seeds must be a list/],
    [{ make: makeMemo, seeds: [1.5] }, /seeds\[0\] must be/],
    [{ make: makeMemo, only: ['nothing'] }, /only must be one of/],
  ])('refuses %j', (options, message) => {
    expect(() => connectorCases(options as never)).toThrow(message);
  });
});
