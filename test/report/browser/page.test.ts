import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { benchPage } from '../../../bench/report/page.js';
import { BASELINE, readResults } from '../../../bench/results.js';
import type { Report } from '../../../src/cli/report.js';
import { decimal, duration, figure } from '../../../src/report/figures.js';
import { loadPlotLibrary } from '../../../src/report/library.js';
import { run } from '../../cli/run-program.js';
import { useTempFiles } from '../../cli/temp-file.js';
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

const write = useTempFiles();
/** Each page is opened in the first view of a line, and then shown in the others. */
const VIEWS: readonly [width: number, scheme: Scheme][][] = [
  [
    [1280, 'light'],
    [1280, 'dark'],
  ],
  [
    [390, 'dark'],
    [360, 'light'],
  ],
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
const HOSTILE = `"><b id=hacked>'&lt;\u202e`;

if (CHROMIUM === undefined) console.warn(WHY_SKIPPED);

/** Pages by what they show, and the report of the first as `--json` prints it. */
const pages = new Map<string, string>();
let report: Report;
let browser: Browser;

async function replayPage(name: string, ...args: string[]): Promise<Report> {
  const path = write(`${name}.html`, '');
  const { code, stdout, stderr } = await run(['replay', '--json', '--report', path, ...args]);
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  pages.set(name, path);
  return JSON.parse(stdout) as Report;
}

/** A trace in a folder and a file whose names together try to leave the page's markup. */
function hostileTrace(): string {
  const folder = join(dirname(write('x', '')), `${HOSTILE}<`);
  mkdirSync(folder);
  const path = join(folder, `script><script>document.title='hacked'<`);
  mkdirSync(path);
  const file = join(path, 'script>.jsonl');
  const line = { timestamp: 0, input_length: 600, output_length: 9, hash_ids: [1, 2] };
  writeFileSync(file, `${JSON.stringify(line)}\n{"timestamp":"</script>"}\n`);
  return file;
}

describe.skipIf(CHROMIUM === undefined)('pages in a browser', () => {
  beforeAll(async () => {
    browser = await openBrowser();
    const busy = ['--request-rate', '60', '--num-blocks', '3000', '--abort-rate', '0.1'];
    report = await replayPage('a busy replay', '--requests', '600', ...busy);
    await replayPage('one request', '--requests', '1');
    await replayPage('nothing generated', '--requests', '3', '--abort-rate', '1', '--seed', '5');
    await replayPage(
      'a slow replay',
      '--requests',
      '40',
      '--max-num-seqs',
      '1',
      '--step-overhead-ms',
      '90000',
    );
    await replayPage('hostile names', hostileTrace(), '--skip-bad');
    const results = readResults(BASELINE);
    const library = loadPlotLibrary('this test');
    pages.set('the benchmark', write('bench.html', benchPage(results, library, ['--report'])));
    const names = `</script><script>document.title='hacked'</script>${HOSTILE}`;
    const rows = results.rows.map((row, i) => (i % 9 === 0 ? { ...row, name: `${i} ${names}` } : row));
    pages.set(
      'a hostile benchmark',
      write('bench2.html', benchPage({ ...results, rows }, library, ['--report', names])),
    );
  }, 120_000);
  afterAll(async () => await browser?.close());

  const names = [
    'a busy replay',
    'one request',
    'nothing generated',
    'a slow replay',
    'hostile names',
    'the benchmark',
  ];

  async function expectGood(view: View, name: string, width: number): Promise<void> {
    const { page, incidents } = view;
    const { problems, charts } = await inspectCharts(page);
    expect(problems).toEqual([]);
    for (const { id, texts, drawn } of charts) {
      expect({ id, texts: texts > 2 }).toEqual({ id, texts: true });
      if (name === 'a busy replay' || name === 'the benchmark')
        expect({ id, drawn }).not.toEqual({ id, drawn: 0 });
    }
    if (name === 'a busy replay') expect(charts.map(({ id }) => id)).toEqual(REPLAY_CHARTS);
    const { checked, faint } = await faintTexts(page);
    expect(faint).toEqual([]);
    expect(checked).toBeGreaterThan(80);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    expect(incidents).toEqual([]);
  }

  for (const name of names) {
    it.each(VIEWS)(`${name}, in %j and %j: is quiet, whole and readable`, async (first, ...others) => {
      const view = await openPage(browser, pages.get(name) as string, ...first);
      await expectGood(view, name, first[0]);
      for (const [width, scheme] of others) {
        await changeView(view, width, scheme);
        await expectGood(view, name, width);
      }
      await view.page.close();
    });
  }

  it('says the figures that --json says', async () => {
    const { page } = await openPage(browser, pages.get('a busy replay') as string, 1280, 'light');
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
      ...seconds.map((n) => shown(n, time(1000 * n))),
      ...[report.prefixCache.hitRate, kvCache.peakUsage].map((n) => shown(n, decimal(100 * n))),
      ...[report.preemptions, schedulerStepUs.p50, schedulerStepUs.p99].map((n) => shown(n)),
    ]);
    await page.close();
  });

  it('marks the time at the pointer in all charts over time, and says what they show there', async () => {
    const { page, incidents } = await openPage(browser, pages.get('a busy replay') as string, 1280, 'light');
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
    await page.close();
  });

  it('names what it was made with, and what is virtual', async () => {
    const { page } = await openPage(browser, pages.get('a busy replay') as string, 1280, 'light');
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
    await page.close();
  });

  it('follows the scheme and the width while it is open', async () => {
    const { page, incidents } = await openPage(browser, pages.get('a busy replay') as string, 1280, 'light');
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
    // It draws at the next frame.
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
    await page.close();
  });

  it.each([
    ['a busy replay', 'ttft', /^requests: \d+$/],
    ['the benchmark', 'scaling', /^p50: [\d.,]+ µs/],
    ['the benchmark', 'budgets', /^measured [\d.,]+, limit [\d.,]+$/],
  ])('%s: tells of %s what is under the pointer', async (name, id, line) => {
    const { page, incidents } = await openPage(browser, pages.get(name) as string, 1280, 'light');
    await page.locator(`#${id}`).scrollIntoViewIfNeeded();
    const box = await page.locator(`#${id}`).boundingBox();
    await page.mouse.move(box!.x + box!.width * 0.55, box!.y + box!.height * 0.5);
    const first = page.locator(`#${id} .tooltip-line`).first();
    expect(await first.innerText({ timeout: 5000 })).toMatch(line);
    expect(incidents).toEqual([]);
    await page.close();
  });

  it.each(['hostile names', 'a hostile benchmark'])('%s stay text', async (name) => {
    const { page, incidents } = await openPage(browser, pages.get(name) as string, 1280, 'light');
    expect(await page.locator('#hacked').count()).toBe(0);
    expect(await page.title()).not.toBe('hacked');
    expect(await page.locator('script').count()).toBe(4);
    const text = await page.locator('main').innerText();
    expect(text).toContain('</script>'.slice(1, 7));
    expect(text).toContain('<script>document.title=');
    expect(incidents).toEqual([]);
    await page.close();
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
