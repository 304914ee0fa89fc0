import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { answerHelp } from '../../usage.js';
import { TREE } from '../host/tree.js';
import { newestGpuResults, parseGpuResults } from './record.js';
import { gpuSection, replaceSection } from './section.js';

const USAGE = `npm run gpu:report -- [RESULT] [--write]
Prints the README's table of what was measured on a GPU, made of a result of npm run test:gpu (default: the newest of
bench/results). Without any result every row says that it is unmeasured.
  --write  puts the table into the README`;

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
  const readme = join(TREE, 'README.md');
  writeFileSync(readme, replaceSection(readFileSync(readme, 'utf8'), section));
}

answerHelp(USAGE);
try {
  main();
} catch (error) {
  console.error(`gpu:report: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
