// Part of npm run build:ts: puts the plotting library into the package. Every page carries a copy of it.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const folder = dirname(createRequire(import.meta.url).resolve('echarts/package.json'));
const read = (...path) => readFileSync(join(folder, ...path), 'utf8');
const { version, license } = JSON.parse(read('package.json'));
const library = {
  name: 'Apache ECharts',
  version,
  license,
  source: read('dist', 'echarts.common.min.js'),
  notice: `${read('NOTICE').trim()}\n\nIts number functions are d3's:\n${read('licenses', 'LICENSE-d3').trim()}`,
};
writeFileSync(new URL('../../../dist/report/plot-library.json', import.meta.url), JSON.stringify(library));
