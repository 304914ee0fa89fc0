// The page docs/benchmarks.md, and the section of `README.md`.
import { REPOSITORY, shortCommit } from '../machine.js';
import type { Results } from '../rows/results.js';
import { Figures } from './figures.js';
import { PARTS, type PartProgram, tracePrograms } from './parts.js';
import { describeSections } from './sections.js';

/** The first line of a page that was made. */
export const MADE =
  '<!-- Made by npm run bench:docs: its words are in bench/docs, its figures in a result. Do not edit. -->';

/**
 * `docs/benchmarks.md`, made of one result.
 * @param file the result, relative to the repository
 */
export function benchmarksPage(results: Results, file: string): string {
  const sections = describeSections(new Figures(results), (name) => partOf(results, name));
  const text = [MADE, '# Benchmarks', head(results, file), ...sections];
  return `${text.join('\n\n').trim()}\n`;
}

function head({ machine, quick }: Results, file: string): string {
  const { cpu, cores, memoryGiB, node, load, date } = machine;
  const url = `https://github.com/blockstep/blockstep/blob/main/${file}`;
  return `All figures on this page are from one run, at commit ${shortCommit(machine)}, on ${date.slice(0, 10)}: [${file}](${url}).
${quick ? '**It was a quick run, with few samples.**\n' : ''}The machine: ${cpu}, ${cores} cores, ${memoryGiB} GiB, Node ${node.slice(1)}, load ${load.join(', ')} at the beginning. Blockstep ran on
one thread. Times are in microseconds unless the text names another unit, and include the cost of
Node-API. A time without a percentile is a p50. Prefix caching is on.

- \`npm run bench\` in a checkout measures most of these figures on your machine, and
  \`npm run bench:docs -- --run\` measures all of them. \`--help\` explains the figures.
- \`npm run bench -- --vs CHECKOUT\` compares two builds, and \`npm run bench:peers\` compares
  schedulers in any language.
- \`npm run bench -- --report [PAGE]\` also writes a page with charts.

Figures of GPUs are in [gpu.md](gpu.md#figures).`;
}

/** The output of a program in this run, below its command. */
function partOf({ parts = [] }: Results, name: string): string {
  const programs: readonly PartProgram[] = [...PARTS, ...tracePrograms('FILE', 'FILE')];
  const command = programs.find((program) => program.name === name)?.command ?? name;
  const part = parts.find((each) => each.name === name);
  if (part === undefined) return `\`${command}\`: not in this run.`;
  if (part.tables === null) return `\`${command}\` could not run: ${part.error}`;
  return `\`${command}\`:\n\n${part.tables}`;
}

export const PAGE = `${REPOSITORY}/docs/benchmarks.md`;

const BEGIN = '<!-- made by npm run bench:docs -->';
const END = '<!-- end of what npm run bench:docs made -->';

/** Puts a section between its two marks. @throws Error if the text has none */
export function replaceSpeed(text: string, section: string): string {
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`there is no "${BEGIN}" before a "${END}"`);
  return `${text.slice(0, from + BEGIN.length)}\n${section}\n${text.slice(to)}`;
}

/** The section of README.md about speed, from the same result and the newest result of a GPU. */
export function speedSection(results: Results, gpu: string | null): string {
  const figures = new Figures(results);
  const { machine } = results;
  const streams = figures.row('engine', '256 streams, every chunk')?.value;
  const lines = [
    `A scheduler step over 256 running decodes takes ${figures.value('decode', '256')} µs at the median, ${figures.perRequest('decode', '256')} µs per request; over 1,024 it takes ${figures.value('decode', '1024')} µs.`,
    `A prefix hit of 2,048 tokens takes ${figures.value('operations', 'full hit, 10k cached')} µs. Adding a request of 2,048 tokens, with hashing, takes ${figures.value('operations', 'Scheduler.add, hashing')} µs.`,
    `The engine streams ${streams === undefined ? '–' : (streams / 1e6).toFixed(2)} million tokens per second to 256 readers that read every chunk.`,
    `A step with 64 KV transfers in flight takes ${figures.ratio('decode', '256, 64 transfers', '256')} times as long as a step without transfers.`,
    ...(gpu === null ? [] : [gpu]),
  ];
  const where = `a machine with ${machine.cores} cores (${machine.cpu})`;
  return `\nMeasured on one thread of ${where}, at commit ${shortCommit(machine)}: [docs/benchmarks.md](docs/benchmarks.md).\n\n${lines.map((line) => `- ${line}`).join('\n')}\n`;
}
