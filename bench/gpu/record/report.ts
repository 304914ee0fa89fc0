// The command `npm run gpu:report`: prints the tables of docs/gpu.md, or writes them into that
// page.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { answerHelp } from '../../usage.js';
import { TREE } from '../host/tree.js';
import { newestGpuResults, parseGpuResults } from './record.js';
import { gpuSection, replaceSection } from './section.js';

const USAGE = `npm run gpu:report -- [RESULT] [--write]
Prints the tables of docs/gpu.md, of what was measured on a GPU, made of a result of npm run test:gpu (default: the newest of
bench/results). Without any result they say that nothing was measured.
  --write  puts the tables into docs/gpu.md`;

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { write: { type: 'boolean', default: false } },
  });
  const [file] = positionals;
  const results = file === undefined ? newestGpuResults() : parseGpuResults(readFileSync(file, 'utf8'), file);
  if (results?.emulated === true) throw new Error(`${file} was made on the emulated GPU: it has no figures`);
  const section = gpuSection(results);
  if (!values.write) {
    console.log(section);
    return;
  }
  const page = join(TREE, 'docs', 'gpu.md');
  writeFileSync(page, replaceSection(readFileSync(page, 'utf8'), section));
}

answerHelp(USAGE);
try {
  main();
} catch (error) {
  console.error(`gpu:report: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
