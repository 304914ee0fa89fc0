// Opens the page of a server, and collects its errors.
import type { Browser, Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import type { Scheme } from '../../report/browser/browser.js';
import { PATIENCE_MS } from '../../support/waiting.js';

export interface ServedView {
  readonly page: Page;
  /**
   * The incidents that a good page has none of: messages on the console, uncaught errors, dialogs,
   * requests elsewhere.
   */
  readonly incidents: string[];
}

/** Opens a server's page, and waits until it shows something. The page is closed when the test ends. */
export async function openServed(
  browser: Browser,
  url: string,
  { width = 1280, scheme = 'light' }: { width?: number; scheme?: Scheme } = {},
): Promise<ServedView> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme });
  onTestFinished(() => page.close());
  const incidents: string[] = [];
  page.on('console', (message) => incidents.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => incidents.push(`uncaught: ${error.message}`));
  page.on('dialog', (dialog) => {
    incidents.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const to = request.url();
    if (!to.startsWith(`${url}/`) && to !== 'data:,') incidents.push(`request: ${to}`);
  });
  await page.goto(`${url}/`);
  await page.waitForSelector('html[data-drawn]', { timeout: PATIENCE_MS, state: 'attached' });
  return { page, incidents };
}

/** The text of an element. */
export async function textOf(page: Page, selector: string): Promise<string> {
  return (await page.locator(selector).textContent()) ?? '';
}

/** The place of a block on the map, in pixels of the canvas. */
export async function placeOnMap(
  page: Page,
  block: number,
  numBlocks: number,
): Promise<{ x: number; y: number }> {
  return await page.evaluate(
    ([id, count]) => {
      const canvas = document.getElementById('map') as HTMLCanvasElement;
      const { width, height } = canvas.getBoundingClientRect();
      const columns = Number(canvas.dataset['columns']);
      const rows = Math.ceil(count / columns);
      return {
        x: ((id % columns) + 0.5) * (width / columns),
        y: (Math.floor(id / columns) + 0.5) * (height / rows),
      };
    },
    [block, numBlocks],
  );
}

/** Runs in the page: the colour of a block on the map. */
export function readPixel([block, count]: number[]): number[] {
  const canvas = document.getElementById('map') as HTMLCanvasElement;
  const columns = Number(canvas.dataset['columns']);
  const rows = Math.ceil(count / columns);
  const x = Math.floor(((block % columns) + 0.5) * (canvas.width / columns));
  const y = Math.floor((Math.floor(block / columns) + 0.5) * (canvas.height / rows));
  return [...(canvas.getContext('2d') as CanvasRenderingContext2D).getImageData(x, y, 1, 1).data];
}
