// The page fits every width and scheme, works by pointer and keyboard, starts, streams and aborts;
// keys; hostile texts.
import type { Browser, Page, Response } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHROMIUM, faintTexts, openBrowser, type Scheme, WHY_SKIPPED } from '../../report/browser/browser.js';
import { thinned } from '../../support/share.js';
import { PATIENCE_MS, until } from '../../support/waiting.js';
import { isEmpty, type Served, serve } from '../support/served.js';
import { openServed, placeOnMap, readPixel, textOf } from './open.js';

const VIEWS: [width: number, scheme: Scheme][] = [
  [1280, 'light'],
  [1280, 'dark'],
  [320, 'dark'],
  [320, 'light'],
];
const HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
const LONG = { prompt: 'one two one two one '.repeat(20), max_tokens: 1900, ignore_eos: true };
if (CHROMIUM === undefined) console.warn(WHY_SKIPPED);

let browser: Browser;

/** A server with a request that runs for as long as the test, unless it is aborted. */
async function busy(served: Served = {}) {
  const all = await serve({ latencyMs: 12, serve: { drainMs: 0 }, ...served });
  const asked = all.post('/v1/completions', LONG).then((response) => response.text());
  asked.catch(() => {});
  await until(() => all.engine.numRunning === 1, 'a running request');
  const [{ id }] = all.engine.scheduler.inspect().requests;
  const blocks = () => [...all.engine.scheduler.inspect().blocksOf(all.engine.scheduler.get(id)!)];
  return { ...all, id, asked, blocks };
}

async function expectText(page: Page, selector: string, text: string | RegExp): Promise<void> {
  await expect.poll(() => textOf(page, selector), { timeout: PATIENCE_MS }).toMatch(text);
}

/** Which element has the focus. */
function focused(page: Page): Promise<string> {
  return page.evaluate(
    () => document.activeElement?.id || document.activeElement?.getAttribute('href') || '',
  );
}

describe.skipIf(CHROMIUM === undefined)('the page of a server', () => {
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => await browser?.close());

  it.each(thinned(VIEWS, 2))('%i wide and %s: is quiet, whole and readable', async (width, scheme) => {
    const { url, id } = await busy();
    const { page, incidents } = await openServed(browser, url, { width, scheme });
    await page.locator(`#list li:has([title="${id}"])`).click();
    await expectText(page, '#detail-explain', 'running');
    await expectText(page, '#step', / ms$/);
    const { checked, faint } = await faintTexts(page);
    expect(faint).toEqual([]);
    expect(checked).toBeGreaterThan(60);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    // States of blocks and lines stand out from the panel, but free blocks, which are nothing.
    expect(await page.evaluate(strangers)).toEqual([]);
    expect(incidents).toEqual([]);
  });

  it.each([1280, 320])('%i wide: says what the engine does, and never moves what it says', async (width) => {
    const { url, engine } = await busy();
    const { page } = await openServed(browser, url, { width });
    await expectText(page, '#model', 'test-model');
    await expectText(page, '#health-word', 'healthy');
    await expectText(page, '#running', '1');
    await expectText(page, '#tokens', /\d \/s/);
    await expectText(page, '#anomalies', 'none');
    await expectText(page, '#count-used', /^\d+$/);
    await page.evaluate(() => {
      const shifts: string[] = [];
      Object.assign(window, { shifts });
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries() as (PerformanceEntry & { sources: { node: Node }[] })[])
          for (const { node } of entry.sources) shifts.push(node.parentElement?.outerHTML ?? node.nodeName);
      }).observe({ type: 'layout-shift', buffered: true });
    });
    const steps = engine.stats().steps;
    engine.abort('nobody');
    await expectText(page, '#anomalies', 'abort-unknown 1');
    await until(() => engine.stats().steps > steps + 50, 'fifty steps');
    await expectText(page, '#latency-start', '1 min ago');
    const outline = () => page.locator('#latency path').first().getAttribute('d');
    await expect.poll(outline, { timeout: PATIENCE_MS }).toMatch(/^M[\d.]+ [\d.]+L/);
    expect(await page.evaluate(() => Reflect.get(window, 'shifts'))).toEqual([]);
  });

  it('says of the block at the pointer what it is and who holds it, and shows all blocks of that request', async () => {
    const { url, id, blocks, engine } = await busy();
    const { page, incidents } = await openServed(browser, url);
    await expectText(page, '#count-used', /^[1-9]/);
    const [first] = blocks();
    const { numBlocks } = engine.scheduler.config;
    await page.locator('#map').hover({ position: await placeOnMap(page, first, numBlocks) });
    await expectText(page, '#map-readout', `Block ${first}: in use; held by ${id}`);
    // The text is still there when the map has changed.
    await page.waitForResponse((response) => response.url().endsWith('/blocks') && response.status() === 200);
    await page.waitForResponse((response) => response.url().endsWith('/blocks') && response.status() === 200);
    expect(await textOf(page, '#map-readout')).toBe(`Block ${first}: in use; held by ${id}`);
    await page.locator('#map').hover({ position: await placeOnMap(page, 1500, numBlocks) });
    await expectText(page, '#map-readout', /^Block 1,500: free$/);
    await page.locator('#map').hover({ position: await placeOnMap(page, 0, numBlocks) });
    await expectText(page, '#map-readout', 'Block 0: reserved');
    // A picture of the cell: it fades when the blocks of a request are shown that does not hold it.
    const colorOf = (block: number) => page.evaluate(readPixel, [block, numBlocks]);
    const plain = [await colorOf(first), await colorOf(1500)];
    await page.locator('#map').click({ position: await placeOnMap(page, first, numBlocks) });
    await expectText(page, '#detail-id', id);
    await expectText(page, '#detail-explain', 'running');
    await expect.poll(() => colorOf(1500)).not.toEqual(plain[1]);
    expect(await colorOf(first)).toEqual(plain[0]);
    await page.locator('#forget').click();
    await expect.poll(() => colorOf(1500)).toEqual(plain[1]);
    // The test itself reads pixels back.
    expect(incidents.filter((text) => !text.includes('getImageData'))).toEqual([]);
  });

  it('lists requests side by side where nothing stands beside the list', async () => {
    const { url, post } = await busy();
    for (let i = 0; i < 5; i++)
      void post('/v1/completions', { prompt: `word ${i}`, max_tokens: 1000 }).catch(() => {});
    const tops = (page: Page): Promise<number[]> =>
      page.evaluate(() =>
        [...document.querySelectorAll('#list li')].map((row) => row.getBoundingClientRect().top),
      );
    for (const [width, columns] of [
      [1280, 3],
      [390, 1],
    ] as const) {
      const { page } = await openServed(browser, url, { width });
      await expect.poll(() => page.locator('#list li').count(), { timeout: PATIENCE_MS }).toBe(6);
      const places = await tops(page);
      expect(new Set(places).size).toBe(6 / columns);
    }
  });

  it('works by the keyboard alone', async () => {
    const { url, id, blocks, engine, asked } = await busy();
    const { page } = await openServed(browser, url);
    await expectText(page, '#count-used', /^[1-9]/);
    await expect.poll(() => page.locator('#list span').first().getAttribute('title')).toBe(id);
    await page.locator('#model').click();
    const order: string[] = [];
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press('Tab');
      order.push(await focused(page));
    }
    const parts = ['#figures', '#time-title', '#map-title', '#list-title', '#start-title'];
    expect(order).toEqual([...parts, 'map', 'filter', 'list', 'pause', 'prompt', 'max-tokens', 'start']);
    await page.locator('#map').focus();
    await expectText(page, '#map-readout', 'Block 0: reserved');
    const [first] = blocks();
    for (let i = 0; i < first; i++) await page.keyboard.press('ArrowRight');
    await expectText(page, '#map-readout', `Block ${first}: in use; held by ${id}`);
    await page.keyboard.press('End');
    await expectText(page, '#map-readout', 'Block 2,048: free');
    await page.keyboard.press('ArrowDown');
    await expectText(page, '#map-readout', 'Block 2,048: free');
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowDown');
    const row = Number(/Block (\d+)/.exec(await textOf(page, '#map-readout'))?.[1]);
    expect(row).toBeGreaterThan(50);
    await page.keyboard.press('ArrowUp');
    for (let i = 0; i < first; i++) await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await expectText(page, '#detail-id', id);
    await page.keyboard.press('Escape');
    await expectText(page, '#detail-id', 'No request is chosen');
    // The focus can be seen.
    const outline = () =>
      page.evaluate(() => getComputedStyle(document.activeElement as Element).outlineStyle);
    expect(await outline()).toBe('solid');
    // The list, and the abort of a request that it shows.
    await page.locator('#filter').focus();
    await page.keyboard.press('Tab');
    expect([await focused(page), await outline()]).toEqual(['list', 'solid']);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await expectText(page, '#detail-explain', 'running');
    expect(await page.locator('#list li').first().getAttribute('aria-selected')).toBe('true');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('abort');
    await page.keyboard.press('Enter');
    expect(await asked).toContain('"finish_reason":"abort"');
    await expectText(page, '#detail-explain', 'It has ended.');
    // Nothing more is asked about it.
    const asking: string[] = [];
    page.on('request', (request) => asking.push(request.url()));
    for (let i = 0; i < 3; i++) await page.waitForResponse((response) => /\/requests\?/.test(response.url()));
    expect(asking.filter((to) => to.includes(`/requests/${id}`))).toEqual([]);
    await until(() => isEmpty(engine), 'an empty engine');
  });

  it('starts a request, shows its text as it comes, and aborts it', async () => {
    const { url, engine } = await serve({ latencyMs: 10 });
    const { page, incidents } = await openServed(browser, url);
    const prompt = 'one two three one two three one two';
    await page.locator('#prompt').fill(prompt);
    await page.locator('#max-tokens').fill('1500');
    await page.locator('#start').click();
    await expectText(page, '#answer', /one two three/);
    expect(engine.numRunning).toBe(1);
    await expectText(page, '#start-note', 'running');
    await expectText(page, '#detail-explain', 'of at most 1500 generated');
    await page.locator('#stop').click();
    await expectText(page, '#start-note', 'aborted');
    await until(() => isEmpty(engine), 'an empty engine');
    expect(engine.stats().scheduler.finished.abort).toBe(1);
    // The next one runs to its end.
    await page.locator('#max-tokens').fill('3');
    await page.locator('#start').click();
    await expectText(page, '#start-note', 'ended: length');
    expect((await textOf(page, '#answer')).split(' ').filter(Boolean)).toHaveLength(3);
    // A refusal is shown in the server's words.
    await page.locator('#max-tokens').fill('99999');
    await page.locator('#start').click();
    await expectText(page, '#start-note', /^failed: .*\d/);
    // Chromium itself writes down that a request was refused, or that a request has ended.
    expect(incidents.filter((text) => !/status of 40[04]/.test(text))).toEqual([]);
  });

  it('pauses and resumes the engine', async () => {
    const { url, engine, id } = await busy();
    const { page } = await openServed(browser, url);
    expect(await page.locator('#resume').isVisible()).toBe(false);
    await page.locator('#pause').click();
    await page.locator('#pause-no').click();
    expect(await page.locator('#pause-question').isVisible()).toBe(false);
    await page.locator('#pause').click();
    expect(engine.scheduler.pauseMode).toBe('none');
    await page.locator('#pause-yes').click();
    await expectText(page, '#health-word', 'paused');
    await page.locator('#resume').waitFor({ timeout: PATIENCE_MS });
    expect(await page.locator('#pause').isEnabled()).toBe(false);
    expect(engine.scheduler.pauseMode).toBe('all');
    // Nothing changes meanwhile: the map is not sent again, is not drawn again, and stays.
    await page.locator('#list li').first().click();
    await expectText(page, '#detail-explain', 'everything is paused');
    const isUnchanged = (response: Response) => /\/blocks$/.test(response.url()) && response.status() === 304;
    await page.waitForResponse(isUnchanged);
    const facts = () => page.waitForResponse((response) => response.url().includes(`/requests/${id}`));
    await facts();
    await facts();
    await page.evaluate(() => {
      CanvasRenderingContext2D.prototype.drawImage = () => Object.assign(window, { isDrawn: true });
    });
    await facts();
    await page.waitForResponse(isUnchanged);
    await facts();
    expect(await page.evaluate(() => Reflect.get(window, 'isDrawn'))).toBe(undefined);
    expect(await textOf(page, '#count-reserved')).toBe('1');
    await page.locator('#resume').click();
    await expectText(page, '#health-word', 'healthy');
    expect(engine.scheduler.pauseMode).toBe('none');
    await expect.poll(() => page.evaluate(() => Reflect.get(window, 'isDrawn'))).toBe(true);
  });

  it('says why a server is not well, and when it is gone', async () => {
    const { url, app, engine } = await serve({ serve: { endsEngine: false } });
    const { page } = await openServed(browser, url);
    engine.dispose();
    await expectText(page, '#health-word', 'disposed');
    await expectText(page, '#health-reasons', 'the engine was disposed');
    await app.close();
    await expectText(page, '#health-word', 'no answer');
  });

  it('takes ids, texts and the name of the model for text', async () => {
    const { url, engine } = await serve({ latencyMs: 5, serve: { model: { id: HOSTILE } } });
    const stream = engine.submit({ id: HOSTILE, prompt: [1, 2, 3, 4], maxTokens: 1500 });
    await until(() => stream.numOutputTokens > 2, 'a few tokens');
    const { page, incidents } = await openServed(browser, url);
    await expectText(page, '#model', HOSTILE);
    await expectText(page, '#count-used', /^[1-9]/);
    const [block] = engine.scheduler.inspect().blocksOf(engine.scheduler.get(HOSTILE)!);
    const { numBlocks } = engine.scheduler.config;
    await page.locator('#map').click({ position: await placeOnMap(page, block, numBlocks) });
    await expectText(page, '#map-readout', `held by ${HOSTILE}`);
    await expectText(page, '#detail-id', HOSTILE);
    await expectText(page, '#detail-explain', 'running');
    await page.locator('#prompt').fill(`${HOSTILE} ${HOSTILE} <img`);
    await page.locator('#max-tokens').fill('12');
    await page.locator('#start').click();
    await expectText(page, '#start-note', /^ended/);
    expect(await textOf(page, '#answer')).toContain('src=x');
    // No id of the server's own is hostile: another server's may be.
    const requests = [{ id: HOSTILE, state: HOSTILE, output_tokens: 1 }];
    await page.route('**/requests?*', (route) => route.fulfill({ json: { requests, total: 1 } }));
    await expectText(page, '#list', `${HOSTILE}${HOSTILE}, 1`);
    await page.unroute('**/requests?*');
    await page.locator('#filter').fill(HOSTILE);
    await expectText(page, '#list-note', /^0 under way/);
    expect(await page.locator('img, script:not([type=module])').count()).toBe(0);
    expect(incidents.filter((text) => !/status of 404/.test(text))).toEqual([]);
    stream.abort();
  });

  it('asks for a key, says if it is wrong, and uses it for all that it does', async () => {
    const { url, engine } = await serve({ latencyMs: 5, serve: { apiKeys: ['right'] } });
    const { page } = await openServed(browser, url);
    await expectText(page, '#health-word', 'locked');
    expect(await focused(page)).toBe('key');
    const asked: (string | undefined)[] = [];
    page.on('request', (request) => asked.push(request.headers()['authorization']));
    await page.keyboard.type('wrong');
    await page.keyboard.press('Enter');
    await expectText(page, '#key-note', 'the key is not valid');
    expect(await page.locator('#key').inputValue()).toBe('');
    await page.locator('#key').fill('right');
    await page.keyboard.press('Enter');
    await expectText(page, '#health-word', 'healthy');
    expect(await page.locator('#key-form').isVisible()).toBe(false);
    await page.locator('#start').click();
    await expectText(page, '#answer', /\w/);
    await page
      .locator('#stop')
      .click({ timeout: 2000 })
      .catch(() => {});
    await page.locator('#pause').click();
    await page.locator('#pause-yes').click();
    await expectText(page, '#health-word', 'paused');
    expect(engine.scheduler.pauseMode).toBe('all');
    expect(new Set(asked)).toEqual(new Set(['Bearer wrong', 'Bearer right']));
    // The tab keeps it, and nothing else does.
    await page.reload();
    await expectText(page, '#health-word', 'paused');
    expect(await page.evaluate(() => [localStorage.length, document.cookie])).toEqual([0, '']);
  });

  it('keeps a new key though answers to an older one come late', async () => {
    const { url } = await serve({ serve: { apiKeys: ['right'] } });
    const { page } = await openServed(browser, url);
    await expectText(page, '#health-word', 'locked');
    const late: (() => Promise<void>)[] = [];
    await page.route('**/*', async (route) => {
      const request = route.request();
      const isOld = request.headers()['authorization'] === 'Bearer wrong';
      if (isOld && !request.url().includes('/figures')) late.push(() => route.continue());
      else await route.continue();
    });
    await page.locator('#key').fill('wrong');
    await page.keyboard.press('Enter');
    await expectText(page, '#key-note', 'the key is not valid');
    await page.locator('#key').fill('right');
    await page.keyboard.press('Enter');
    await expectText(page, '#health-word', 'healthy');
    expect(late.length).toBeGreaterThan(0);
    for (const go of late) {
      const answer = page.waitForResponse((response) => response.status() === 401);
      await go();
      await (await answer).finished();
    }
    expect(await page.evaluate(() => sessionStorage.getItem('blockstep-key'))).toBe('right');
    await expectText(page, '#health-word', 'healthy');
  });

  it('shows by a word and a colour that a figure is bad, and a slow step does not hide the others', async () => {
    const { url, engine } = await busy();
    const { page } = await openServed(browser, url);
    await expectText(page, '#loop-detail', /^the longest in 10 s/);
    const colorOf = (id: string) => page.locator(id).evaluate((place) => getComputedStyle(place).color);
    const plain = await colorOf('#step');
    const end = performance.now() + 400;
    while (performance.now() < end);
    await expectText(page, '#loop-detail', 'too late');
    expect(await colorOf('#loop')).not.toBe(plain);
    engine.abort('nobody');
    await expectText(page, '#anomalies', 'abort-unknown 1');
    expect(await colorOf('#anomalies')).toBe(await colorOf('#loop'));
    // The scale goes from a power of ten to another, by whole ones.
    const marks = await page
      .locator('#latency-ticks span')
      .evaluateAll((spans) =>
        spans.map((each) => [
          Math.log10(Number(each.textContent.replace(',', ''))),
          Number.parseFloat((each as HTMLElement).style.bottom),
        ]),
      );
    const [[lowest, bottom], ...rest] = marks;
    const [highest, top] = rest.at(-1) as number[];
    expect([bottom, top, highest > lowest]).toEqual([0, 100, true]);
    for (const [power, place] of marks) {
      expect(power).toBeCloseTo(Math.round(power), 10);
      expect(place).toBeCloseTo((100 * (power - lowest)) / (highest - lowest), 1);
    }
  });

  it('shows figures and the map alone where nobody may act', async () => {
    const { url, engine } = await serve({ latencyMs: 5, serve: { control: false } });
    engine.submit({ prompt: [1, 2, 3, 4], maxTokens: 1500 });
    const { page, incidents } = await openServed(browser, url);
    await expectText(page, '#count-used', /^[1-9]/);
    await expectText(page, '#running', '1');
    for (const id of ['pause', 'resume', 'list', 'prompt', 'abort'])
      expect([id, await page.locator(`#${id}`).isVisible()]).toEqual([id, false]);
    await page.locator('#map').hover({ position: { x: 12, y: 6 } });
    await expectText(page, '#map-readout', /^Block \d+: (in use|free|reserved: the null block)$/);
    await page.locator('#map').click({ position: { x: 12, y: 6 } });
    for (let i = 0; i < 2; i++) await page.waitForResponse((response) => response.url().includes('/figures'));
    expect(await textOf(page, '#map-readout')).not.toContain('held');
    expect(incidents).toEqual([]);
    engine.abortAll();
  });
});

/** Runs in the page: colours of cells and lines that do not stand out from the panel, by a contrast of 3 (WCAG 2). */
function strangers(): string[] {
  const luminance = (color: string): number => {
    const [r, g, b] = (color.match(/[\d.]+/g) ?? []).map((part) => {
      const share = Number(part) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const panel = luminance(getComputedStyle(document.querySelector('.panel') as Element).backgroundColor);
  const colors: [string, string][] = ['used', 'transfer', 'quarantined', 'reserved'].map((name) => [
    name,
    getComputedStyle(document.querySelector(`.swatch.${name}`) as Element).backgroundColor,
  ]);
  for (const path of document.querySelectorAll('.live path'))
    colors.push([path.id, getComputedStyle(path).stroke]);
  return colors
    .filter(([, color]) => {
      const other = luminance(color);
      return (Math.max(panel, other) + 0.05) / (Math.min(panel, other) + 0.05) < 3;
    })
    .map(([name, color]) => `${name} ${color}`);
}
