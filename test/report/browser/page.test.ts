import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { benchPage } from '../../../bench/report/page.js';
import { BASELINE, readResults } from '../../../bench/results.js';
import type { Report } from '../../../src/cli/report.js';
import { figure, percent } from '../../../src/report/figures.js';
import { loadPlotLibrary } from '../../../src/report/library.js';
import { run } from '../../cli/run-program.js';
import { useTempFiles } from '../../cli/temp-file.js';
import { CHROMIUM, faintTexts, inspectCharts, openBrowser, openPage, WHY_SKIPPED } from './browser.js';

const write = useTempFiles();
const VIEWS = [1280, 390].flatMap((width) =>
  (['light', 'dark'] as const).map((scheme) => ({ width, scheme })),
);
const REPLAY_CHARTS = [
  'running',
  'waiting',
  'kv-usage',
  'hit-rate',
  'ttft',
  'tpot',
  'step',
  'step-over-time',
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
    const library = loadPlotLibrary();
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

  for (const name of names) {
    it.each(VIEWS)(`${name}, $scheme at $width: is quiet, whole and readable`, async ({ width, scheme }) => {
      const { page, incidents } = await openPage(browser, pages.get(name) as string, width, scheme);
      const { problems, charts } = await inspectCharts(page);
      expect(problems).toEqual([]);
      for (const { id, texts, drawn } of charts) {
        expect({ id, texts: texts > 2 }).toEqual({ id, texts: true });
        if (name === 'a busy replay' || name === 'the benchmark')
          expect({ id, drawn }).not.toEqual({ id, drawn: 0 });
      }
      if (name !== 'the benchmark') expect(charts.map(({ id }) => id)).toEqual(REPLAY_CHARTS);
      const { checked, faint } = await faintTexts(page);
      expect(faint).toEqual([]);
      expect(checked).toBeGreaterThan(80);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      expect(incidents).toEqual([]);
      await page.close();
    });
  }

  it('says the figures that --json says', async () => {
    const { page } = await openPage(browser, pages.get('a busy replay') as string, 1280, 'light');
    const embedded = await page.evaluate(() => document.getElementById('report')?.textContent ?? '');
    expect((JSON.parse(embedded) as { report: Report }).report).toEqual(report);
    const shown = await page
      .locator('main > section:first-child data')
      .evaluateAll((elements) =>
        elements.map((element) => ({ value: element.getAttribute('value'), text: element.textContent })),
      );
    const { requests, tokens, prefixCache, ttftMs, tpotMs, schedulerStepUs } = report;
    const percentiles = [ttftMs, tpotMs, schedulerStepUs].flatMap(({ p50, p90, p99, max, count }) => [
      p50,
      p90,
      p99,
      max,
      count,
    ]);
    const { total, finished, aborted, refused, unfinished } = requests;
    const expected = [
      ...[total, finished, aborted, refused, unfinished, tokens.prompt, tokens.generated],
      tokens.generated / report.virtualSeconds,
      ...[prefixCache.hitRate, prefixCache.hits, prefixCache.queries, report.preemptions, report.evictions],
      ...[report.steps, report.virtualSeconds, report.wallSeconds, ...percentiles],
    ] as number[];
    expect(shown).toEqual(
      expected.map((value) => ({
        value: String(value),
        text: value === prefixCache.hitRate ? percent(value) : figure(value),
      })),
    );
    await page.close();
  });

  it('names what it was made with, and what is virtual', async () => {
    const { page } = await openPage(browser, pages.get('a busy replay') as string, 1280, 'light');
    const text = await page.locator('body').innerText();
    for (const part of [
      'blockstep replay --json --report',
      process.version,
      'virtual time',
      'measured',
      'UTC',
    ]) {
      expect(text).toContain(part);
    }
    expect(text).toContain(report.digest);
    const tags = await page.locator('.tag').allInnerTexts();
    expect(tags).toEqual([...Array(6).fill('virtual time'), 'measured', 'measured']);
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
    expect(light.color).toBe('#0072b2');
    await page.emulateMedia({ colorScheme: 'dark' });
    // It draws at the next frame.
    await expect.poll(async () => (await curve()).color).toBe('#56b4e9');
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
    ['a busy replay', 'running', /^running: [\d.,]+ \(min [\d.,]+, max [\d.,]+\)$/],
    ['a busy replay', 'ttft', /^requests: \d+$/],
    ['the benchmark', 'scaling', /^blockstep: [\d.,–]+ µs/],
    ['the benchmark', 'budgets', /^measured: [\d.,]+, limit [\d.,]+$/],
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
