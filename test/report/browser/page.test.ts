// Pages of all kinds load without errors, fit every width and colour scheme, and show their charts.
import { readFileSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Report } from '../../../src/cli/replay/report/report.js';
import { decimal, duration, figure } from '../../../src/report/markup/figures.js';
import { thinned } from '../../support/share.js';
import { useTempFiles } from '../../support/temp-file.js';
import { PATIENCE_MS } from '../../support/waiting.js';
import {
  CHROMIUM,
  changeView,
  faintTexts,
  inspectCharts,
  openBrowser,
  openPage,
  type Scheme,
  type View,
  WHY_SKIPPED,
} from './browser.js';
import { makePages, type Pages } from './pages.js';

const write = useTempFiles();
/** The narrowest first or last. */
const VIEWS: [width: number, scheme: Scheme][] = [
  [1280, 'light'],
  [1280, 'dark'],
  [390, 'dark'],
  [360, 'light'],
];
/** Charts of a replay's page, and where something may not have happened, the text that says so in the chart's place. */
const REPLAY_CHARTS = [
  ...[
    'throughput',
    'e2e-over-time',
    'running',
    'batch-size',
    'waiting',
    'kv-usage',
    'preemptions',
    'hit-rate',
  ],
  ...['step-over-time', 'ttft', 'tpot', 'e2e', 'step'],
];
const HTTP_CHARTS = [
  ...[
    'throughput',
    'ttft-over-time',
    'itl-over-time',
    'e2e-over-time',
    'open',
    'waiting',
    'hit-rate',
    'late',
  ],
  ...['ttft', 'itl', 'tpot', 'e2e', 'lateness'],
];
if (CHROMIUM === undefined) console.warn(WHY_SKIPPED);

let pages: Pages['paths'];
let report: Report;
let browser: Browser;
/** Pages that are open, by their names: to open one takes much longer than to show it in another width or scheme. */
const opened = new Map<string, View>();

async function show(name: string, width = 1280, scheme: Scheme = 'light'): Promise<View> {
  const view = opened.get(name);
  if (view === undefined) {
    const fresh = await openPage(browser, pages.get(name) as string, width, scheme);
    opened.set(name, fresh);
    return fresh;
  }
  await view.page.mouse.move(0, 0);
  await changeView(view, width, scheme);
  return view;
}

describe.skipIf(CHROMIUM === undefined)('pages in a browser', () => {
  beforeAll(async () => {
    browser = await openBrowser();
    ({ paths: pages, report } = await makePages(write));
  });
  afterAll(async () => await browser?.close());

  const names = [
    'a busy replay',
    'one request',
    'nothing generated',
    'a slow replay',
    'hostile names',
    'the benchmark',
    'a replay over HTTP',
    'a hostile server',
  ];

  async function expectGood(view: View, name: string, width: number): Promise<void> {
    const { page, incidents } = view;
    const { problems, charts } = await inspectCharts(page);
    expect(problems).toEqual([]);
    for (const { id, texts, drawn } of charts) {
      expect({ id, texts: texts > 2 }).toEqual({ id, texts: true });
      expect({ id, drawn }).not.toEqual({ id, drawn: 0 });
    }
    if (name === 'a busy replay') expect(charts.map(({ id }) => id)).toEqual(REPLAY_CHARTS);
    if (name === 'a replay over HTTP') expect(charts.map(({ id }) => id)).toEqual(HTTP_CHARTS);
    const { checked, faint } = await faintTexts(page);
    expect(faint).toEqual([]);
    expect(checked).toBeGreaterThan(80);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    expect(incidents).toEqual([]);
  }

  for (const name of names) {
    // Every other page is first seen narrow.
    const views = names.indexOf(name) % 2 === 0 ? VIEWS : [...VIEWS].reverse();
    it.each(thinned(views, 4, names.indexOf(name)))(
      `${name}, %i wide and %s: is quiet, whole and readable`,
      async (width, scheme) => {
        await expectGood(await show(name, width, scheme), name, width);
      },
    );
  }

  it('says the figures that --json says', async () => {
    const { page } = await show('a busy replay');
    const embedded = await page.evaluate(() => document.getElementById('report')?.textContent ?? '');
    expect((JSON.parse(embedded) as { report: Report }).report).toEqual(report);
    const dataIn = (selector: string): Promise<[string | null, string | null][]> =>
      page
        .locator(`${selector} data`)
        .evaluateAll((elements) => elements.map((each) => [each.getAttribute('value'), each.textContent]));
    const { requests, tokens, throughput, kvCache, ttftMs, tpotMs, e2eMs, schedulerStepUs } = report;
    const shown = (value: number | null, text = figure(value as number)) => [String(value), text];
    const time = (ms: number) => duration(ms);
    const of = ({ p50, p90, p99, max, count }: typeof ttftMs, unitMs: number) => [
      ...[p50, p90, p99, max].map((value) => shown(value, figure(value! / unitMs))),
      shown(count),
    ];
    const { total, finished, aborted, refused, unfinished } = requests;
    const seconds = [report.virtualSeconds, report.wallSeconds];
    expect(await dataIn('section:has(h2:text-is("All figures"))')).toEqual([
      ...[total, finished, aborted, refused, unfinished, tokens.prompt, tokens.generated].map((n) =>
        shown(n),
      ),
      ...[throughput.generatedTokens, throughput.finishedRequests, kvCache.blocks].map((n) => shown(n)),
      shown(kvCache.peakUsage, figure(Math.round(kvCache.peakUsage * kvCache.blocks))),
      ...[report.preemptions, report.evictions, report.steps].map((n) => shown(n)),
      ...seconds.map((n) => shown(n, time(1000 * n))),
      ...of(ttftMs, 1000),
      ...of(tpotMs, 1),
      ...of(e2eMs, 1000),
      ...of(schedulerStepUs, 1),
    ]);
    expect(await dataIn('.tiles')).toEqual([
      ...[throughput.generatedTokens, throughput.finishedRequests].map((n) => shown(n)),
      ...[ttftMs.p50, ttftMs.p99, e2eMs.p50, e2eMs.p99].map((n) => shown(n, figure(n! / 1000))),
      shown(report.virtualSeconds, time(1000 * report.virtualSeconds)),
      ...[report.prefixCache.hitRate, kvCache.peakUsage].map((n) => shown(n, decimal(100 * n))),
      ...[report.preemptions, schedulerStepUs.p50, schedulerStepUs.p99].map((n) => shown(n)),
    ]);
  });

  it('marks the time at the pointer in all charts over time, and says what they show there', async () => {
    const { page, incidents } = await show('a busy replay');
    await page.locator('#waiting').scrollIntoViewIfNeeded();
    const box = (await page.locator('#waiting').boundingBox())!;
    const marked = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('.strip .chart')].map((chart) => {
          const lines = [...chart.querySelectorAll('path')].map((path) => path.getBoundingClientRect());
          return {
            uprights: lines.filter(({ width, height }) => width < 2 && height > 60).map((line) => line.x),
            says: chart.parentElement!.querySelector('.readout')!.textContent,
          };
        }),
      );
    const charts = REPLAY_CHARTS.slice(0, 9);
    const before = await marked();
    expect(before.map(({ says }) => says)).toEqual(charts.map(() => ''));
    const x = Math.round(box.x + 0.7 * box.width);
    expect(before.flatMap(({ uprights }) => uprights).filter((at) => Math.abs(at - x) <= 1)).toEqual([]);
    await page.mouse.move(x, box.y + box.height / 2);
    const numbers = /^[\d.,]+ to [\d.,]+ s(at the time |)[\d.,]+( %)?/;
    await expect.poll(async () => (await marked())[0].says).toMatch(numbers);
    const after = await marked();
    for (const { uprights, says } of after) {
      expect(uprights.filter((at) => Math.abs(at - x) <= 1)).toHaveLength(1);
      expect(says).toMatch(numbers);
    }
    expect(after).toHaveLength(charts.length);
    await page.mouse.move(5, 5);
    await expect.poll(async () => (await marked()).map(({ says }) => says)).toEqual(charts.map(() => ''));
    expect(incidents).toEqual([]);
  });

  it('covers nothing with what it says of the time at the pointer, on a phone neither', async () => {
    const { page } = await show('a busy replay', 360);
    await page.locator('#kv-usage').scrollIntoViewIfNeeded();
    const box = (await page.locator('#kv-usage').boundingBox())!;
    await page.mouse.move(box.x + 0.5 * box.width, box.y + 0.6 * box.height);
    const overlaps = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('.strip .plot')].map((plot) => {
          const says = plot.querySelector('.readout')!;
          const { bottom, left, right } = says.getBoundingClientRect();
          const frame = plot.getBoundingClientRect();
          const shapes = [...plot.querySelectorAll('svg path, svg text')].filter((shape) => {
            const { top, width, height } = shape.getBoundingClientRect();
            // A hair more than it is high: half a line's width.
            return width + height > 4 && top < bottom - 6 && getComputedStyle(shape).fill !== 'transparent';
          });
          const isInside = left >= frame.left - 1 && right <= frame.right + 1;
          return { says: says.textContent !== '', isInside, covered: shapes.length };
        }),
      );
    await expect.poll(async () => (await overlaps()).every(({ says }) => says)).toBe(true);
    for (const each of await overlaps()) expect(each).toEqual({ says: true, isInside: true, covered: 0 });
  });

  it('names what it was made with, and what is virtual', async () => {
    const { page } = await show('a busy replay');
    const text = await page.locator('body').innerText();
    for (const part of [
      'blockstep replay --json --report',
      process.version,
      'in virtual time',
      'measured',
      'UTC',
    ]) {
      expect(text).toContain(part);
    }
    expect(text).toContain(report.digest);
    const tags = await page.locator('.tag').allInnerTexts();
    // A figure at the top, a chart over time, a distribution.
    expect(tags).toEqual(['measured', 'measured', 'measured']);
    const tagged = await page.locator('figure:has(.tag) h3').allInnerTexts();
    expect(tagged).toEqual(['Scheduler step', 'Scheduler step']);
  });

  it('follows the scheme and the width while it is open', async () => {
    const { page, incidents } = await show('a busy replay');
    const curve = (): Promise<{ color: string | null; width: number }> =>
      page.evaluate(() => {
        const svg = document.querySelector('#running svg') as SVGElement;
        const widest = [...svg.querySelectorAll('path')].filter(
          (path) => (path.getAttribute('d') ?? '').length > 500,
        );
        return { color: widest.at(-1)?.getAttribute('stroke') ?? null, width: svg.clientWidth };
      });
    const light = await curve();
    expect(light.color).toBe('#0b5fc0');
    await page.emulateMedia({ colorScheme: 'dark' });
    // The page draws at the next frame.
    await expect.poll(async () => (await curve()).color).toBe('#62a8f5');
    await page.setViewportSize({ width: 390, height: 900 });
    await page.waitForFunction(() => (document.querySelector('#running svg')?.clientWidth ?? 999) < 390);
    expect((await inspectCharts(page)).problems).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.waitForFunction(
      (width) => document.querySelector('#running svg')?.clientWidth === width,
      light.width,
    );
    expect((await inspectCharts(page)).problems).toEqual([]);
    expect(incidents).toEqual([]);
  });

  it.each([
    ['a busy replay', 'ttft', /^requests: \d+$/],
    ['the benchmark', 'scaling', /^p50: [\d.,]+ µs/],
    ['the benchmark', 'budgets', /^measured [\d.,]+, limit [\d.,]+$/],
  ])('%s: tells of %s what is under the pointer', async (name, id, line) => {
    const { page, incidents } = await show(name);
    await page.locator(`#${id}`).scrollIntoViewIfNeeded();
    const box = await page.locator(`#${id}`).boundingBox();
    await page.mouse.move(box!.x + box!.width * 0.55, box!.y + box!.height * 0.5);
    const first = page.locator(`#${id} .tooltip-line`).first();
    expect(await first.innerText({ timeout: PATIENCE_MS })).toMatch(line);
    expect(incidents).toEqual([]);
  });

  it.each(['hostile names', 'a hostile benchmark', 'a hostile server'])('%s stay text', async (name) => {
    const { page, incidents } = await show(name);
    expect(await page.locator('#hacked').count()).toBe(0);
    expect(await page.title()).not.toBe('hacked');
    expect(await page.locator('script').count()).toBe(4);
    const text = await page.locator('main').innerText();
    expect(text).toContain('</script>'.slice(1, 7));
    expect(text).toContain('<script>document.title=');
    expect(incidents).toEqual([]);
  });

  it('would not run a script that came in all the same', async () => {
    const source = readFileSync(pages.get('one request') as string, 'utf8');
    const path = write(
      'injected.html',
      source.replace('</main>', '<script>document.title="hacked"</script></main>'),
    );
    const { page, incidents } = await openPage(browser, path, 1280, 'light');
    expect(await page.title()).not.toBe('hacked');
    expect(incidents.join()).toContain('Content Security Policy');
    await page.close();
  });
});
