// Finds Chromium, opens pages and collects their errors.
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { PATIENCE_MS } from '../../support/waiting.js';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** A Chromium of this machine: CHROMIUM names one, else it is looked for; undefined if there is none. */
export const CHROMIUM = [process.env['CHROMIUM'], ...PLACES].find((path) => path && existsSync(path));

export const WHY_SKIPPED = 'skipped: no Chromium was found; install one, or name it in CHROMIUM';

export async function openBrowser(): Promise<Browser> {
  // Chromium's sandbox does not start for root.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return await chromium.launch({ executablePath: CHROMIUM as string, args });
}

export interface View {
  page: Page;
  /**
   * The incidents that a good page has none of: messages on the console, uncaught errors, dialogs,
   * requests but that for itself.
   */
  incidents: string[];
}

export type Scheme = 'light' | 'dark';

/** Opens a file as a reader would, from the disk, and waits until its charts are drawn. */
export async function openPage(
  browser: Browser,
  path: string,
  width: number,
  colorScheme: Scheme,
): Promise<View> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const incidents: string[] = [];
  const url = pathToFileURL(path).href;
  page.on('console', (message) => incidents.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => incidents.push(`uncaught: ${error.message}`));
  page.on('dialog', (dialog) => {
    incidents.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (request.url() !== url) incidents.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector('html[data-drawn]', { timeout: PATIENCE_MS, state: 'attached' });
  return { page, incidents };
}

/** Shows an open page in another width or scheme, and waits until its charts are drawn for it. */
export async function changeView({ page }: View, width: number, colorScheme: Scheme): Promise<void> {
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height: 900 });
  // Both events arrive before the next frame, and the one after it draws them.
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))),
  );
}

/** A text of the page with too little contrast to its background. */
export interface Faint {
  text: string;
  contrast: number;
}

/** Texts with a contrast below 4.5 (WCAG 2 AA), in HTML and in charts, and how many texts there are. */
export async function faintTexts(page: Page): Promise<{ checked: number; faint: Faint[] }> {
  return await page.evaluate(() => {
    const parse = (color: string): number[] => (color.match(/[\d.]+/g) ?? []).map(Number);
    const luminance = ([r, g, b]: number[]): number => {
      const [x, y, z] = [r, g, b].map((value) => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element: Element): number[] => {
      for (let at: Element | null = element; at !== null; at = at.parentElement) {
        const color = parse(getComputedStyle(at).backgroundColor);
        if (color.length === 3 || color[3] > 0) return color;
      }
      return [255, 255, 255];
    };
    const faint: { text: string; contrast: number }[] = [];
    let checked = 0;
    for (const element of document.body.querySelectorAll('*')) {
      const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
      const text = own.map((node) => node.textContent?.trim()).join('');
      if (text === '' || element.getClientRects().length === 0 || element.tagName === 'STYLE') continue;
      const style = getComputedStyle(element);
      const color = parse(element instanceof SVGElement ? style.fill : style.color);
      const [a, b] = [luminance(color), luminance(behind(element))];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      checked++;
      if (contrast < 4.5) faint.push({ text, contrast });
    }
    return { checked, faint };
  });
}

/** The faults of the charts as they are drawn, and the number of texts and curves of each chart. */
export async function inspectCharts(
  page: Page,
): Promise<{ problems: string[]; charts: { id: string; texts: number; drawn: number }[] }> {
  return await page.evaluate(() => {
    const problems: string[] = [];
    const charts: { id: string; texts: number; drawn: number }[] = [];
    const style = getComputedStyle(document.body);
    const rgb = (color: string): string => {
      const probe = document.createElement('i');
      probe.style.color = color;
      document.body.append(probe);
      const found = getComputedStyle(probe).color;
      probe.remove();
      return found;
    };
    const series = ['virtual', 'measured'].map((name) => rgb(style.getPropertyValue(`--${name}`)));
    for (const chart of document.querySelectorAll('.chart')) {
      const svg = chart.querySelector('svg');
      if (svg === null) {
        problems.push(`${chart.id}: nothing is drawn`);
        continue;
      }
      const frame = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll('text')].filter((text) => text.textContent?.trim() !== '');
      const boxes = texts.map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
      boxes.forEach(({ text, box }, i) => {
        const inside = box.left >= frame.left - 0.5 && box.right <= frame.right + 0.5;
        if (!inside || box.top < frame.top - 0.5 || box.bottom > frame.bottom + 0.5) {
          problems.push(`${chart.id}: "${text}" is cut off`);
        }
        for (const other of boxes.slice(i + 1)) {
          const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
          const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
          if (across > 1 && down > 2) problems.push(`${chart.id}: "${text}" covers "${other.text}"`);
        }
      });
      const drawn = [...svg.querySelectorAll('path, circle, polyline')].filter((shape) => {
        const { stroke, fill } = getComputedStyle(shape);
        const { width, height } = shape.getBoundingClientRect();
        return series.some((color) => color === stroke || color === fill) && width + height > 4;
      });
      charts.push({ id: chart.id, texts: texts.length, drawn: drawn.length });
    }
    return { problems, charts };
  });
}
