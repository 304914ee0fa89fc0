// The plotting library as the package carries it.
import { readFileSync } from 'node:fs';
import { BlockstepError } from '../../base/errors.js';
import { packageRoot } from '../../core/package-root.js';

/** The plotting library inside a page. */
export interface PlotLibrary {
  name: string;
  version: string;
  license: string;
  /** A classic script that sets the global `echarts`; it begins with its licence. */
  source: string;
  /** The texts that its licence requires: its notice, and the licence of a part of it. */
  notice: string;
}

/**
 * Reads Apache ECharts as bundled in the package: the build with lines, bars and points, drawn as
 * SVG.
 * @throws ERR_BLOCKSTEP_BAD_FILE in a checkout that was not built
 */
export function loadPlotLibrary(): PlotLibrary {
  // `npm run build:ts` writes this file (browser/pack-library.mjs). Sources that run without a
  // build read it from there too.
  const path = `${packageRoot()}/dist/report/plot-library.json`;
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as PlotLibrary;
  } catch (cause) {
    const what = `${path}: cannot be read: ${String(cause)}. Build it: npm run build:ts`;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', what, { cause });
  }
}
