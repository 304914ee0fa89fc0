// Plants each bug of `plants.ts` in an example: the suite must find it.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  CaseError,
  type ConnectorUnderTest,
  type ConnectorWorld,
  connectorCases,
  type MakeConnector,
} from '../../src/testing/index.js';
import { thinned } from '../support/share.js';
import { type HostTierModule, makeHostTier } from './host-tier.js';
import { type MemoModule, makeMemo } from './memo.js';
import { MEMO_PLANTS, PLANTS, type Plant } from './plants.js';

const FOLDER = fileURLToPath(new URL(`../../build/planted-${process.pid}/`, import.meta.url));

/** The first case that fails, with its message; null: all pass. */
async function firstFailure(make: MakeConnector, finder: string | undefined): Promise<string | null> {
  for (const { run } of connectorCases({
    make,
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

beforeAll(() => mkdirSync(FOLDER, { recursive: true }));
afterAll(() => rmSync(FOLDER, { recursive: true }));

/** A test for each bug: planted into a copy of an example, it must be found. */
function findsIn<Module>(
  name: string,
  plants: readonly Plant[],
  make: (world: ConnectorWorld, example: Module) => ConnectorUnderTest,
): void {
  const example = fileURLToPath(new URL(`../../examples/${name}.ts`, import.meta.url));
  const text = readFileSync(example, 'utf8');
  it.each(
    thinned(
      plants.map((plant, index) => ({ ...plant, index })),
      2,
    ),
  )('$name', async ({ changes, says, finder, index }) => {
    let planted = text;
    for (const [from, to] of changes) {
      expect(planted.split(from).length, from).toBe(2);
      planted = planted.replace(from, () => to);
    }
    const file = `${FOLDER}${name}-${index}.ts`;
    writeFileSync(file, planted);
    const module = (await import(file)) as Module;
    const failure = await firstFailure((world) => make(world, module), finder);
    expect(failure).toMatch(says);
  });
}

describe('the suite finds a bug that was planted in a host tier that', () => {
  findsIn<HostTierModule>('host-tier', PLANTS, makeHostTier);
});

describe('the suite finds a bug that was planted in a memo that', () => {
  findsIn<MemoModule>('memo', MEMO_PLANTS, makeMemo);
});
