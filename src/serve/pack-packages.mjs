// Part of npm run build:ts: puts packages into the modules that use them. So an install fetches
// none of Fastify's forty packages, of which some may ask for a newer Node than blockstep does. It
// fetches no parts of prom-client that are not used here, and no vocabularies of gpt-tokenizer. A
// command reads three files in their place.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));

for (const path of ['cli/serve/app', 'serve/metrics/metrics', 'serve/text/o200k']) {
  const file = join(dist, `${path}.js`);
  // Our own modules stay where they are: others import them too.
  const external = (id, importer) => importer === file && id.startsWith('.');
  const bundle = await rolldown({
    input: file,
    external,
    platform: 'node',
    logLevel: 'warn',
  });
  const { output } = await bundle.write({
    file,
    format: 'esm',
    minify: true,
    banner: `/*! The licenses of the packages in it: ${path}-licenses.txt */`,
  });
  await bundle.close();
  const folders = new Set(output.flatMap(({ moduleIds = [] }) => moduleIds.flatMap(packageOf)));
  const terms = [...folders].sort().map(termsOf);
  writeFileSync(join(dist, `${path}-licenses.txt`), `${terms.join('\n\n')}\n`);
}

/** The folder of the package that a module is of; none for what the bundler adds. */
function packageOf(id) {
  const inside = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id);
  return inside === null ? [] : [inside[0]];
}

function termsOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const texts = readdirSync(folder).filter((each) => /^(licen[cs]e|copying|notice)/i.test(each));
  const text = texts.map((each) => readFileSync(join(folder, each), 'utf8').trim()).join('\n\n');
  return `== ${name} ${version} (${license})\n\n${text}`;
}
