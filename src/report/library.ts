import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { resolveOptional } from '../workload/optional-package.js';

/** The plotting library as a page carries it. */
export interface PlotLibrary {
  name: string;
  version: string;
  license: string;
  /** Classic script that sets the global `echarts`. Its licence stands at its top. */
  source: string;
  /** What its licence asks to be passed on: the notice, and the licence of a part of it. */
  notice: string;
}

/**
 * Reads Apache ECharts from the package `echarts`: the build with lines, bars and points, drawn as SVG.
 * @param feature what needs it, for the error message
 * @throws ERR_BLOCKSTEP_NO_PACKAGE when it is not installed
 */
export function loadPlotLibrary(feature: string, { resolve } = createRequire(import.meta.url)): PlotLibrary {
  const folder = dirname(resolveOptional('echarts/package.json', feature, resolve));
  const read = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8');
  const { version, license } = JSON.parse(read('package.json')) as { version: string; license: string };
  return {
    name: 'Apache ECharts',
    version,
    license,
    source: read('dist', 'echarts.common.min.js'),
    notice: `${read('NOTICE').trim()}\n\nIts number functions are d3's:\n${read('licenses', 'LICENSE-d3').trim()}`,
  };
}
