// Part of npm run build:ts: puts the vocabulary into the package, so that nobody who installs it needs the library that it comes from.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const folder = dirname(createRequire(import.meta.url).resolve('gpt-tokenizer/package.json'));
const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
const terms = readFileSync(join(folder, 'LICENSE'), 'utf8').trim();
const file = fileURLToPath(new URL('../../../dist/serve/text/o200k.js', import.meta.url));

const bundle = await rolldown({ input: file, platform: 'node', logLevel: 'warn' });
await bundle.write({
  file,
  format: 'esm',
  minify: true,
  banner: `/*! With the vocabulary o200k_base from gpt-tokenizer ${version} (${license}):\n\n${terms}\n*/`,
});
await bundle.close();
