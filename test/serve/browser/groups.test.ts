// Several KV cache groups: their figures, their blocks on the map, the blocks of a request in each.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KvGroupOptions } from '../../../src/index.js';
import { CHROMIUM, faintTexts, openBrowser, WHY_SKIPPED } from '../../report/browser/browser.js';
import { PATIENCE_MS, until } from '../../support/waiting.js';
import { serve } from '../support/served.js';
import { openServed, placeOnMap, readPixel, textOf } from './open.js';

const GROUPS: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 40 }];
const LONG = { prompt: 'one two one two one '.repeat(20), max_tokens: 1900, ignore_eos: true };
if (CHROMIUM === undefined) console.warn(WHY_SKIPPED);

let browser: Browser;

/** A paused server, with a request that has run past its window. */
async function busy(kvGroups: KvGroupOptions[] | undefined) {
  const all = await serve({ latencyMs: 1, serve: { drainMs: 0 }, engine: { ...(kvGroups && { kvGroups }) } });
  const { engine, post } = all;
  void post('/v1/completions', LONG).then(
    (response) => response.text(),
    () => {},
  );
  await until(() => engine.numRunning === 1 && engine.stats().steps > 60, 'sixty steps');
  engine.pause('all');
  await until(() => engine.stats().stepsInFlight === 0, 'no step in flight');
  const [{ id, slot }] = engine.scheduler.inspect().requests;
  const row = (group: number): number[] =>
    [...engine.scheduler.core.blocks(slot, group)].filter((block) => block !== 0);
  return { ...all, id, row };
}

async function expectText(page: Page, selector: string, text: string | RegExp): Promise<void> {
  await expect.poll(() => textOf(page, selector), { timeout: PATIENCE_MS }).toMatch(text);
}

describe.skipIf(CHROMIUM === undefined)('the page of a server with KV cache groups', () => {
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => await browser?.close());

  it.each([1280, 320])('%i wide: says what each group has, readably', async (width) => {
    const { url, engine, id, row } = await busy(GROUPS);
    const { page, incidents } = await openServed(browser, url, { width });
    const [full, sliding] = engine.stats().scheduler.groups;
    await expectText(
      page,
      '#groups li:nth-child(1)',
      `0: full${full.usedBlocks} in use, ${full.cachedBlocks} with a hash`,
    );
    await expectText(
      page,
      '#groups li:nth-child(2)',
      `1: sliding 40${sliding.usedBlocks} in use, ${sliding.cachedBlocks} with a hash, ${sliding.nullPlaces} places empty, ${sliding.droppedBlocks} let go`,
    );
    await page.locator(`#list li:has([title="${id}"])`).click();
    await expectText(page, '#detail-explain', 'holds blocks (full: ');
    await expectText(page, '#detail-facts', `group 1, sliding 40${row(1).length} in ${row(0).length} places`);
    expect((await faintTexts(page)).faint).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    expect(incidents).toEqual([]);
  });

  it('says the group of a block, and shows the blocks of a group alone until another thing is shown', async () => {
    const { url, engine, id, row } = await busy(GROUPS);
    const { page } = await openServed(browser, url);
    await expectText(page, '#count-used', /^[1-9]/);
    await expectText(page, '#groups', 'sliding');
    const { numBlocks } = engine.scheduler.config;
    const [first] = row(0);
    const [last] = row(1).slice(-1);
    await page.locator('#map').hover({ position: await placeOnMap(page, last, numBlocks) });
    await expectText(page, '#map-readout', `Block ${last}: in use, group 1 (sliding 40); held by ${id}`);
    await page.locator('#map').hover({ position: await placeOnMap(page, 2000, numBlocks) });
    await expectText(page, '#map-readout', /^Block 2,000: free$/);
    const colorOf = (block: number) => page.evaluate(readPixel, [block, numBlocks]);
    const plain = [await colorOf(first), await colorOf(last)];
    const pressed = () =>
      page
        .locator('#groups button')
        .evaluateAll((all) => all.map((each) => each.getAttribute('aria-pressed')));
    await page.locator('#groups button').nth(1).click();
    await expect.poll(() => colorOf(first)).not.toEqual(plain[0]);
    expect(await colorOf(last)).toEqual(plain[1]);
    expect(await pressed()).toEqual(['false', 'true']);
    await page.locator('#groups button').nth(0).click();
    await expect.poll(() => colorOf(first)).toEqual(plain[0]);
    expect(await colorOf(last)).not.toEqual(plain[1]);
    // A request that is chosen takes the place of the group.
    await page.locator('#list li').click();
    await expect.poll(() => colorOf(last)).toEqual(plain[1]);
    expect(await pressed()).toEqual(['false', 'false']);
    await page.locator('#groups button').nth(0).click();
    await expect.poll(() => colorOf(last)).not.toEqual(plain[1]);
    await page.locator('#groups button').nth(0).click();
    await expect.poll(() => colorOf(last)).toEqual(plain[1]);
    expect(await pressed()).toEqual(['false', 'false']);
  });

  it('without groups there is no list of them', async () => {
    const { url } = await busy(undefined);
    const { page } = await openServed(browser, url);
    await expectText(page, '#count-used', /^[1-9]/);
    await expectText(page, '#kv-detail', / of 2,048 blocks$/);
    expect(await page.locator('#groups').isHidden()).toBe(true);
  });
});
