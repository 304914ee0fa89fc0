import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { BlockstepError } from '../../base/errors.js';
import { packageRoot } from '../../core/package-root.js';
import { trusted } from '../../report/markup/html.js';
import { embedScript } from '../../report/page/script.js';
import { STYLE } from '../../report/page/style.js';
import { renderBody } from './markup.js';
import { PAGE_STYLE } from './style.js';

/** The page as one document, with its Content-Security-Policy. */
export interface PageDocument {
  readonly html: string;
  readonly policy: string;
}

/**
 * Makes the page. It contains no data: its script requests the data from the server. The policy
 * allows only the page's own script and style, by their hashes, and requests to its own server.
 * @param control whether the page has controls
 * @throws ERR_BLOCKSTEP_BAD_FILE in a checkout that was not built
 */
export function makeDocument(control: boolean): PageDocument {
  const style = STYLE + PAGE_STYLE;
  const script = embedScript(readScript(), 'type="module"');
  const styleHash = `'sha256-${createHash('sha256').update(style).digest('base64')}'`;
  const policy = [
    "default-src 'none'",
    `script-src ${script.hash}`,
    `style-src ${styleHash}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  return { html: renderBody(trusted(`<style>${style}</style>`), script.element, control).source, policy };
}

/**
 * The page's script, which the build makes from browser/ (pack-page.mjs). Sources that run without
 * a build take the script from dist.
 */
function readScript(): string {
  const built = new URL('./page-script.js', import.meta.url);
  const path = existsSync(built) ? built : `${packageRoot()}/dist/serve/page/page-script.js`;
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const what = `${String(path)}: cannot be read: ${String(cause)}. Build it: npm run build:ts`;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', what, { cause });
  }
}
