// A small share of the seeds: nothing breaks, all intended events happen, bugs planted in the loop
// are found.
import { describe, expect, it } from 'vitest';
import { Driver } from '../../support/driver.js';
import { isQuick, share } from '../../support/share.js';
import { expectFoundAgain, expectGuarded } from '../shared/command.js';
import { groupsOf } from '../shared/kv/groups-of.js';
import { describeLives } from '../shared/lives.js';
import { Observer } from '../shared/observer.js';
import { SimGrammar } from './grammar.js';
import { ENGINE_PLANTS } from './plants.js';
import { ENGINE_LOOP } from './run.js';
import type { Stage } from './stage.js';
import { Transcript } from './text.js';
import { Waits } from './waits.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(6, 30));
/** The events that simulated lives are for: each of them must happen often. */
const WANTED = [
  ...['stop', 'length', 'abort', 'abort with a reason', 'error', 'stops asked', 'stops refused'],
  ...['loads', 'synchronous loads', 'stores', 'stores dropped', 'hand-overs', 'settled stores', 'released'],
  ...['fenced', 'resets'],
  ...['chunk started', 'chunk queued', 'sessionChunks', 'sessionsReclaimed', 'grammarTimeouts'],
  ...['numPreemptions', 'prefixCacheHits', 'externalHits', 'droppedOutputs', 'specAcceptedTokens'],
  ...['failedLoads', 'loadTimeouts', 'quarantines', 'loadsReclaimed', 'evictions'],
  ...['queueTimeouts', 'requestTimeouts'],
  ...['stale-handle', 'duplicate-completion', 'wrong-owner', 'invalid-block', 'connector-failed'],
];

describeLives(ENGINE_LOOP, { numSeeds: SEEDS, steps: 2000, wanted: WANTED, often: 5, again: [12, 500] });

describe('bugs planted in the loop', () => {
  it.each(ENGINE_PLANTS)('$name: its guard stands where it is taken out', expectGuarded);

  it.skipIf(isQuick).each(share(['behindKeptBack'], ['behindKeptBack'], ['behindKeptBack', 'storesWrongKv']))(
    '%s is found, and found again by the command that is told',
    (name) => expectFoundAgain(name, 60, `--loop engine --plant ${name}`),
  );
});

describe('the text of a session', () => {
  it('has the KV of the last token of an answer for a request that has not taken the next chunk', () => {
    const stops = { maxTokens: 3, minTokens: 3, eosTokenId: -1, stopTokenIds: [] };
    const groups = groupsOf(undefined, { blockSize: 4, maxModelLen: 64, spare: 0 });
    const textOf = (prompt: Int32Array) => new Transcript(prompt, 1, stops, 64, -1, groups);
    const prompt = Int32Array.of(5, 6);
    const text = textOf(prompt);
    text.addChunk(Int32Array.of(500, 501), stops);
    const { tokens } = text.answer(0);
    const whole = textOf(Int32Array.of(...prompt, ...tokens));
    const taken = textOf(Int32Array.of(...prompt, ...tokens.slice(0, 2), 500, 501));
    expect(text.content(3, 0, 2)).toBe(whole.content(3, 0, 5));
    expect(text.content(4, 0, 2)).toBe(whole.content(4, 0, 5));
    expect(text.content(4, 0, 6)).toBe(taken.content(4, 0, 6));
    expect(whole.content(4, 0, 5)).not.toBe(taken.content(4, 0, 6));
  });
});

describe('a wait for a grammar whose deadline is over', () => {
  /**
   * @param throws whether the grammar throws when it is asked; else it is not ready
   * @returns a check whether a request may wait for that grammar while a step is in flight
   */
  function late(throws: boolean): (hasUpdated: boolean) => void {
    const stage = {
      ...{ now: 1000, isCalm: false, excused: new Set(), setup: { engine: { deadlines: { grammar: 100 } } } },
      ...{ name: () => 'g', blame: () => {}, strikes: () => throws, rng: () => ({ chance: () => true }) },
    };
    const now = () => stage.now;
    // A grammar that throws is asked at its deadline; the other grammar waits on, as if there were
    // none.
    const deadlines = { grammar: throws ? 100 : 1000 };
    const driver = new Driver({ now, deadlines, pipelineDepth: 2, maxNumSeqs: 1, grammarFailures: 'update' });
    const world = Object.assign(stage, { engine: driver }) as unknown as Stage;
    const waits = new Waits(world, null);
    const observer = new Observer(driver.scheduler);
    driver.add({ id: 'runs' });
    driver.schedule();
    driver.add({ id: 'g', grammar: new SimGrammar(world, 17, 9000) });
    waits.watch(observer.sight(stage.now));
    stage.now += 200;
    driver.schedule();
    return (hasUpdated) => waits.check(observer.sight(stage.now), () => false, hasUpdated);
  }

  it('may go on until the next update, if the grammar has failed', () => {
    const check = late(true);
    expect(() => check(false)).not.toThrow();
    expect(() => check(true)).toThrow(
      'I10: g is WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR, and its deadline is over',
    );
  });

  it('may not, if the grammar is not ready', () => {
    expect(() => late(false)(false)).toThrow('I10: g is WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR');
  });
});
