// 100,000 blocks and 1,000 requests: bounded elements, one drawing for each map.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Inspection } from '../../../src/scheduler/inspect/inspection.js';
import { CHROMIUM, openBrowser, WHY_SKIPPED } from '../../report/browser/browser.js';
import { PATIENCE_MS } from '../../support/waiting.js';
import { serveCrowd } from '../support/crowd.js';
import { openServed, placeOnMap, textOf } from './open.js';

if (CHROMIUM === undefined) console.warn(WHY_SKIPPED);

let browser: Browser;

/** Runs in a page before its own scripts: counts what is drawn, and the elements that are made. */
function countDrawings(): void {
  const counts = { images: 0, rectangles: 0 };
  Object.assign(window, { counts });
  const { drawImage, fillRect } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.drawImage = function (...args: unknown[]) {
    counts.images++;
    Reflect.apply(drawImage, this, args);
  };
  CanvasRenderingContext2D.prototype.fillRect = function (...args) {
    counts.rectangles++;
    fillRect.apply(this, args);
  };
}

describe.skipIf(CHROMIUM === undefined)('a page of 100,000 blocks and 1,000 requests', () => {
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => await browser?.close());

  it('draws each map once, has few elements, and all who watch share one map', async () => {
    const { url, engine, numBlocks } = await serveCrowd();
    const made = vi.spyOn(Inspection.prototype, 'blockStates');
    const start = performance.now();
    const context = await browser.newContext();
    await context.addInitScript(countDrawings);
    const opened = { newPage: () => context.newPage() } as unknown as Browser;
    const first = await openServed(opened, url);
    const second = await openServed(opened, url);
    const maps = { first: 0, second: 0 };
    first.page.on('response', (response) => {
      if (response.url().endsWith('/blocks') && response.status() === 200) maps.first++;
    });
    await expect.poll(() => maps.first, { timeout: PATIENCE_MS }).toBeGreaterThan(4);
    await second.page.close();
    const { page, incidents } = first;
    const counts = () =>
      page.evaluate(() => Reflect.get(window, 'counts') as { images: number; rectangles: number });
    const drawn = await counts();
    // Maps from before the test began to count, and one for the first size of the box, are at most
    // three.
    expect(drawn.images).toBeGreaterThanOrEqual(maps.first - 1);
    expect(drawn.images).toBeLessThanOrEqual(maps.first + 3);
    expect(drawn.rectangles).toBe(0);
    // Two watchers, but no more maps than one a second.
    expect(made.mock.calls.length).toBeLessThanOrEqual((performance.now() - start) / 900 + 1);
    const text = async (id: string) => Number((await textOf(page, `#count-${id}`)).replaceAll(',', ''));
    const sum = (
      await Promise.all(['free', 'cached', 'used', 'transfer', 'quarantined', 'reserved'].map(text))
    ).reduce((a, b) => a + b);
    expect(sum).toBe(numBlocks);
    expect(await text('used')).toBeGreaterThan(80_000);
    expect(await textOf(page, '#list-note')).toBe('1,000 under way; the first 100 are listed');
    expect(await page.locator('#list li').count()).toBe(100);
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(600);
    // A click chooses a row that the list has to be scrolled to.
    const row = page.locator('#list li').nth(60);
    const name = (await row.locator('span').first().getAttribute('title'))!;
    await row.click();
    await expect.poll(() => textOf(page, '#detail-id')).toBe(name);
    expect(await row.getAttribute('aria-selected')).toBe('true');
    await page.locator('#forget').click();
    // A block of a request that is far down in the list is found by the map.
    const last = engine.scheduler.inspect().requests[400];
    const [, block] = engine.scheduler.inspect().blocksOf(last);
    await page.locator('#map').click({ position: await placeOnMap(page, block, numBlocks) });
    await expect
      .poll(() => textOf(page, '#detail-id'), { timeout: PATIENCE_MS })
      .not.toBe('No request is chosen');
    const holders = engine.scheduler
      .inspect()
      .holdersOf(block)
      .map(({ id }) => id);
    expect(holders).toContain(await textOf(page, '#detail-id'));
    await page.locator('#filter').fill(last.id);
    await expect.poll(() => page.locator('#list li').count()).toBe(1);
    expect(incidents).toEqual([]);
    await context.close();
    engine.abortAll();
  });
});
