// Random lives over a small pool: every text is right, and all invariants hold.
import { describe, expect, it } from 'vitest';
import { leftovers } from '../support/driver.js';
import { isQuick, share } from '../support/share.js';
import { Life } from './random-life.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(10, 60));
/** Rare lives that once went wrong: a sharer preempted while its step fails; drafts of an earlier residency. */
const RARE = [452, 773, 869, 1736, 2519].filter((seed) => seed >= SEEDS);
/** Drafts refused after their request was admitted again and planned beyond them. */
const RARE_CONVERSATIONS = [1331].filter((seed) => seed >= SEEDS);
const EVENTS = 500;
const WANTED = [
  ...['sessionChunks', 'sessionsReclaimed', 'streamingInputTimeouts', 'grammarTimeouts', 'grammarRejections'],
  ...[
    'droppedOutputs',
    'numPreemptions',
    'grammar-failed',
    'stale-handle',
    'chunk-after-end',
    'duplicate-end',
  ],
];

function live(life: Life): void {
  life.run(EVENTS);
  const { driver, added } = life;
  expect(leftovers(driver.scheduler)).toEqual([]);
  for (const { handle, maxTokens, isSession, grammar } of added) {
    const [end, ...more] = driver.ends.get(handle) as string[];
    expect(more).toEqual([]);
    expect(['stop', 'length', 'abort', 'error']).toContain(end);
    const text = driver.text(handle);
    if (grammar !== null) expect(text.slice(0, grammar.accepted.length)).toEqual(grammar.accepted);
    // The answers of sessions are compared as they come.
    if (isSession) continue;
    expect(text).toEqual(driver.model.text(handle, text.length));
    expect(text.length).toBeLessThanOrEqual(maxTokens);
  }
  const handles = [...driver.finishedHandles].sort((a, b) => a - b);
  expect(handles).toEqual(added.map(({ handle }) => handle).sort((a, b) => a - b));
  expect(new Set(driver.finished)).toEqual(new Set(added.map(({ id }) => id)));
}

describe('random workloads over a small pool', () => {
  for (const seed of [...Array(SEEDS).keys(), ...RARE]) {
    it(`seed ${seed}: invariants hold after every call, every text is right, nothing is left at the end`, () => {
      live(new Life(seed));
    });
  }
});

describe('random workloads with sessions, grammars and adapters', () => {
  const total: Record<string, number> = {};

  for (const seed of [...Array(SEEDS).keys(), ...RARE_CONVERSATIONS]) {
    it(`seed ${seed}: the same holds`, () => {
      const life = new Life(seed, {}, true);
      live(life);
      const { anomalies, ...stats } = life.driver.scheduler.stats();
      for (const [what, count] of Object.entries({ ...stats, ...anomalies })) {
        if (typeof count === 'number') total[what] = (total[what] ?? 0) + count;
      }
    });
  }

  it.skipIf(isQuick)('do everything that they are for', () => {
    for (const what of WANTED) expect(total[what], what).toBeGreaterThan(20);
  });
});
