// Aborts by id and handle, of one, of lists, of all.
import { describe, expect, it } from 'vitest';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';

/** Four requests: two run, two wait. */
function four(): { driver: Driver; handles: number[] } {
  const driver = new Driver({ maxNumSeqs: 2 });
  const ids = ['a', 'b', 'c', 'd'];
  const handles = ids.map((id, i) => driver.add({ id, prompt: prompt(6, i), maxTokens: 5 }));
  driver.step();
  return { driver, handles };
}

describe('abort', () => {
  it('answers the ids that ended, in the order in which they were named', () => {
    const { driver, handles } = four();
    expect(driver.abort(['d', 'b', 'a'])).toEqual(['d', 'b', 'a']);
    expect(driver.schedule().finished).toEqual(['d', 'b', 'a']);
    driver.update();
    driver.run();
    expect(handles.map((handle) => driver.ends.get(handle)?.[0])).toEqual([
      'abort',
      'abort',
      'length',
      'abort',
    ]);
  });

  it('takes ids and handles mixed, any iterable, and names each request once', () => {
    const { driver, handles } = four();
    const keys = new Set<string | number>([handles[0], 'a', 'c', handles[2]]);
    expect(driver.abort(keys)).toEqual(['a', 'c']);
    expect(driver.abort(handles[1])).toEqual(['b']);
    expect(driver.abort('d')).toEqual(['d']);
    expect(leftovers(driver.scheduler)).toEqual([]);
    expect(driver.scheduler.stats().finished.abort).toBe(4);
  });

  it('skips the unknown among the known', () => {
    const { driver } = four();
    expect(driver.abort(['x', 'b', 'y', 'b'])).toEqual(['b']);
    expect(driver.scheduler.stats().anomalies).toEqual({ 'abort-unknown': 2 });
  });

  it('of nothing does nothing', () => {
    const { driver } = four();
    expect(driver.abort([])).toEqual([]);
    expect(driver.scheduler.numUnfinished).toBe(4);
  });

  it('of all ends all, in the order in which they were added, whatever holds them', () => {
    const { driver, handles } = four();
    driver.schedule();
    expect(driver.abortAll()).toEqual(['a', 'b', 'c', 'd']);
    driver.update();
    expect(driver.last).toEqual([]);
    expect(driver.abortAll()).toEqual([]);
    driver.run();
    for (const handle of handles) expect(driver.ends.get(handle)).toEqual(['abort']);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('keeps the order of those that stay', () => {
    const driver = new Driver({ maxNumSeqs: 3 });
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) driver.add({ id, prompt: prompt(3, 1), maxTokens: 9 });
    driver.step();
    driver.abort(['b', 'e']);
    expect(driver.scheduler.inspect()).toMatchObject({ running: ['a', 'c'], waiting: ['d', 'f'] });
  });

  it('gives the blocks back at once: what waited is scheduled in the next step', () => {
    const driver = new Driver({ numBlocks: 5 });
    driver.add({ id: 'a', prompt: prompt(14), maxTokens: 2 });
    driver.add({ id: 'b', prompt: prompt(14, 1), maxTokens: 2 });
    driver.step();
    driver.abort('a');
    expect(driver.schedule().requests[0].id).toBe('b');
  });

  it('refuses keys that are neither ids nor handles, before anything ends', () => {
    const { driver } = four();
    for (const keys of [null, undefined, {}, 1.5, -1, ['a', Number.NaN], ['a', null]]) {
      expect(codeOf(() => driver.scheduler.abort(keys as string))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(driver.scheduler.numUnfinished).toBe(4);
  });
});
