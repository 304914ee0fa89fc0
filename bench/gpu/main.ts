/**
 * Everything that can only be checked and measured on a GPU, in one run with one result: `npm run test:gpu`, or `run` in a
 * bundle (bundle.ts). See USAGE in options.ts, and record.ts for what is written.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { killAll } from './host/command.js';
import { readHost } from './host/host.js';
import { readBuild, TREE } from './host/tree.js';
import { type RunOptions, readRunOptions, USAGE } from './options.js';
import { GpuRecord } from './record/record.js';
import { runAll } from './run.js';

const EXIT_NO_GPU = 2;
const EXIT_BAD_OPTIONS = 3;

/** The addon over the emulated GPU, as `npm run build:emulated` leaves it. */
const EMULATED_ADDON = join(TREE, 'native', 'build-emulated', 'Release', 'blockstep.node');

async function main(options: RunOptions): Promise<number> {
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const host = await readHost();
  const { emulated } = options;
  if (!emulated && host.gpu === null) {
    console.error(`There is no GPU that could be used: ${host.noGpu}`);
    return EXIT_NO_GPU;
  }
  if (emulated && !existsSync(EMULATED_ADDON)) {
    console.error(`--emulated needs ${EMULATED_ADDON}: build it with "npm run build:emulated"`);
    return EXIT_BAD_OPTIONS;
  }
  const { minutes, steps, only } = options;
  let record: GpuRecord;
  try {
    record = new GpuRecord(options.out, {
      emulated,
      date: new Date().toISOString(),
      build: readBuild(),
      host,
      options: { minutes, steps, only },
    });
  } catch (error) {
    console.error(`--out must be a folder that can be written, got ${options.out}: ${wordsOf(error)}`);
    return EXIT_BAD_OPTIONS;
  }
  console.log(`${emulated ? 'the emulated GPU' : host.gpu?.name}, results in ${record.file}`);
  await runAll(options, record, emulated ? EMULATED_ADDON : null);
  record.finish();
  return record.exitCode;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    killAll();
    process.exit(130);
  });
}

let options: RunOptions | null = null;
try {
  options = readRunOptions(process.argv.slice(2));
} catch (error) {
  console.error(`${wordsOf(error)}\n${USAGE}`);
  process.exitCode = EXIT_BAD_OPTIONS;
}
if (options !== null) process.exitCode = await main(options);
