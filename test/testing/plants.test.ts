import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CaseError, connectorCases } from '../../src/testing/index.js';
import { type HostTierModule, makeHostTier } from './host-tier.js';
import { PLANTS } from './plants.js';

const EXAMPLE = fileURLToPath(new URL('../../examples/host-tier.ts', import.meta.url));
const FOLDER = fileURLToPath(new URL(`../../build/planted-${process.pid}/`, import.meta.url));

/** The first case that fails, with what it says; null: all pass. */
async function firstFailure(tier: HostTierModule, finder: string | undefined): Promise<string | null> {
  for (const { run } of connectorCases({
    make: (world) => makeHostTier(world, tier),
    seeds: [1, 2, 3, 4, 5],
    ...(finder !== undefined && { only: [finder] }),
  })) {
    try {
      await run();
    } catch (error) {
      expect(error).toBeInstanceOf(CaseError);
      return (error as CaseError).message;
    }
  }
  return null;
}

describe('the suite finds a bug that was planted in a connector that', () => {
  const text = readFileSync(EXAMPLE, 'utf8');
  beforeAll(() => mkdirSync(FOLDER, { recursive: true }));
  afterAll(() => rmSync(FOLDER, { recursive: true }));

  it.each(PLANTS.map((plant, index) => ({ ...plant, index })))(
    '$name',
    async ({ changes, says, finder, index }) => {
      let planted = text;
      for (const [from, to] of changes) {
        expect(planted.split(from).length, from).toBe(2);
        planted = planted.replace(from, () => to);
      }
      const file = `${FOLDER}host-tier-${index}.ts`;
      writeFileSync(file, planted);
      const failure = await firstFailure((await import(file)) as HostTierModule, finder);
      expect(failure).toMatch(says);
    },
  );
});
