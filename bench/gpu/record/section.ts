// The tables of docs/gpu.md.
import { figure as inWords, markdown } from '../../rows/table.js';
import type { Figure } from './figure.js';
import type { Check, GpuResults, Verdict } from './record.js';

/** The text of docs/gpu.md between these two lines is made here. */
const BEGIN = '<!-- made by npm run gpu:report -->';
const END = '<!-- end of what npm run gpu:report made -->';

/** Names that native/test/gpu/bench gives to its figures: these (worn_pool.h) for each authority, the others once. */
const STEPS = [
  'decode of 256, 16 new blocks',
  'decode of 256, 4 finished of 40 blocks',
  'decode of 256, 4 admitted of 40 blocks',
  'admission of 126,000 tokens',
];
const TABLES = [
  'gather, 256 rows',
  'gather, 1,024 rows',
  'log and gather, 256 rows',
  'log and gather, 1,024 rows',
  'log and gather in one launch, 256 rows',
  'log and gather in one launch, 1,024 rows',
  'tables copied whole, 256 rows',
  'tables copied whole, 1,024 rows',
];
const IN_NODE = [
  ...['64', '256', '1,024'].flatMap((size) =>
    ['host', 'cuda'].map((backend) => `in Node, decode of ${size}, backend ${backend}`),
  ),
  ...['256', '1,024'].map((size) => `in Node, decode of ${size}, decided by the GPU`),
];
/**
 * A step of the host, right behind a product that has just ended. Only decisions of the host are
 * measured so.
 */
const BEHIND = 'right behind a matrix product';
/** The first of the steps, applied by kernels that the product does not have (apply_ways.cu). */
const WAYS = [
  'as it is',
  'a letter of 1 KB',
  'one warp',
  'Extend and Publish alone',
  'one warp, 1 KB, Extend and Publish alone',
].map((way) => `decode of 256 applied by another kernel, ${way}`);
/** The same, launched by a thread of the core: the host's time is the caller's time. */
const BY_THREAD = 'decode of 256 launched by a thread';
/** Kernels that do nothing but complete (ladder.cu), and the parts of their time. */
const RUNGS = [
  '128 B',
  '1 KB',
  '4 KB',
  '8 KB',
  '32 KB',
  '4 KB, lowest priority',
  '4 KB, one warp',
  '4 KB, lets the next begin',
  '4 KB, lets the next begin and begins early',
  '4 KB, the stream writes the word',
];
const PARTS_OF_LAUNCH = [
  'host side',
  'from its call to its first instruction',
  'from its first instruction to its last',
  'from its last instruction to its word',
];
/** Figures of the cost of a completion for a kernel. */
const COMPLETIONS = ['a completion, released', 'a completion of words that stand for themselves'];
const AFTER_COPY = 'end of a copy to its word';
const COPIES = ['to the GPU', 'from the GPU'].flatMap((where) =>
  ['lane by the kernel', 'lane by batches', 'one cudaMemcpyAsync'].map((how) => `${how} ${where}`),
);
const BLOCK_BYTES = [4, 16, 64, 256, 1024, 2048].map((kib) => kib * 1024);
/** Copies are measured beside more things than steps are, in some sizes of a block. */
const BLOCK_BYTES_BESIDE = [4, 64, 2048].map((kib) => kib * 1024);
const BESIDE_COPIES = [
  'copies from the host',
  'copies to the host',
  'matrix product',
  'persistent matrix product',
] as const;
const BESIDE = ['matrix product', 'persistent matrix product', 'copies from the host'] as const;
const UNMEASURED = 'unmeasured';

/** The tables of docs/gpu.md of a result, marked with its device. Null: nothing was measured; the head says so, and cells are empty. */
export function gpuSection(results: GpuResults | null): string {
  const figures = results?.figures ?? [];
  const parts = [head(results), times(figures), ladder(figures), copies(figures)];
  const section = [BEGIN, ...parts, END].join('\n\n');
  return results === null ? section.replaceAll(`| ${UNMEASURED} `, '| - ') : section;
}

/** @throws Error if the text has no such section */
export function replaceSection(text: string, section: string): string {
  const from = text.indexOf(BEGIN);
  const to = text.indexOf(END);
  if (from < 0 || to < from) throw new Error(`there is no "${BEGIN}" before a "${END}"`);
  return text.slice(0, from) + section + text.slice(to + END.length);
}

function head(results: GpuResults | null): string {
  if (results === null) {
    return (
      '**Unmeasured: no GPU was there yet.** The tables show what will be measured. ' +
      'Microseconds from the call to the completion word, p50 / p99:'
    );
  }
  const { build, host, date, checks } = results;
  const { name, driver } = host.gpu ?? { name: 'no GPU', driver: null };
  const commit = build.commit?.slice(0, 8) ?? 'no commit';
  return (
    `Measured on ${date.slice(0, 10)} on one ${name} (driver ${driver ?? 'unknown'}, CUDA ${host.cuda ?? 'unknown'}) ` +
    `at ${commit}; checks: ${tally(checks)}. Microseconds from the call to the completion word, p50 / p99:`
  );
}

function tally(checks: readonly Check[]): string {
  const count = (verdict: Verdict): number => checks.filter((check) => check.verdict === verdict).length;
  const verdicts: Verdict[] = ['passed', 'failed', 'unavailable', 'unfinished'];
  return verdicts
    .filter((verdict) => verdict === 'passed' || count(verdict) > 0)
    .map((verdict) => `${count(verdict)} ${verdict}`)
    .join(', ');
}

/** One line of the table of times, and which of its cells there are. */
interface Line {
  name: string;
  authority: Figure['authority'];
  /** Measured beside other work too, not only on an idle GPU. */
  besides: boolean;
  /** Measured right behind a product, too. */
  behind: boolean;
  /** The host's work is a separate figure. */
  hostSide: boolean;
}

const LINES: readonly Line[] = [
  ...(['host', 'device'] as const).flatMap((authority) =>
    STEPS.map((name) => ({ name, authority, besides: true, behind: authority === 'host', hostSide: true })),
  ),
  ...WAYS.map((name) => ({ name, authority: null, besides: false, behind: true, hostSide: true })),
  { name: BY_THREAD, authority: null, besides: false, behind: false, hostSide: true },
  ...TABLES.map((name) => ({
    name,
    authority: null,
    besides: true,
    behind: false,
    hostSide: !name.startsWith('gather'),
  })),
  ...[...COMPLETIONS, AFTER_COPY, ...IN_NODE].map((name) => ({
    name,
    authority: null,
    besides: false,
    behind: false,
    hostSide: false,
  })),
];

function times(figures: readonly Figure[]): string {
  const cell = (name: string, { authority }: Line, beside: string): string => {
    return time(
      figures.find((one) => one.name === name && one.authority === authority && one.beside === beside),
    );
  };
  const header = [
    '',
    'authority',
    'idle',
    BEHIND,
    ...BESIDE.map((name) => `beside ${name}`),
    'host side, idle',
  ];
  const rows = LINES.map((line) => [
    line.name,
    line.authority ?? '',
    cell(line.name, line, 'idle'),
    line.behind ? cell(line.name, line, BEHIND) : '',
    ...BESIDE.map((beside) => (line.besides ? cell(line.name, line, beside) : '')),
    line.hostSide ? cell(`${line.name}, host side`, line, 'idle') : '',
  ]);
  return markdown(header, rows);
}

function time(one: Figure | undefined): string {
  if (one === undefined) return UNMEASURED;
  const verdict =
    one.budgetUs === undefined ? '' : one.p50Us <= one.budgetUs ? ', budget met' : ', budget missed';
  const budget = one.budgetUs === undefined ? '' : ` (${one.budgetUs}${verdict})`;
  return `${inWords(one.p50Us)} / ${inWords(one.p99Us)}${budget}`;
}

function ladder(figures: readonly Figure[]): string {
  const rows = RUNGS.map((rung) => {
    const name = `a kernel of nothing, ${rung}`;
    const parts = [name, ...PARTS_OF_LAUNCH.map((part) => `${name}, ${part}`)];
    return [rung, ...parts.map((part) => time(figures.find((one) => one.name === part)))];
  });
  const header = ['a kernel that only completes', 'to its word', ...PARTS_OF_LAUNCH];
  return `Where the time of a launch goes, by the bytes of its parameter, microseconds, p50 / p99:\n\n${markdown(header, rows)}`;
}

function copies(figures: readonly Figure[]): string {
  const rate = (name: string, beside: Figure['beside'], bytes: number): string => {
    const one = figures.find(
      (each) => each.name === name && each.beside === beside && each.blockBytes === bytes,
    );
    return one?.gbPerSecond === undefined ? UNMEASURED : inWords(one.gbPerSecond);
  };
  const table = (beside: Figure['beside'], measured: readonly number[]): string => {
    const sizes = measured.map((bytes) =>
      bytes < 2 ** 20 ? `${bytes / 1024} KiB` : `${bytes / 2 ** 20} MiB`,
    );
    const rows = COPIES.map((name) => [name, ...measured.map((bytes) => rate(name, beside, bytes))]);
    return markdown([beside === 'idle' ? '' : `beside ${beside}`, ...sizes], rows);
  };
  return [
    `Copies, in GB/s at the p50, by the bytes of a block:\n\n${table('idle', BLOCK_BYTES)}`,
    'The same beside other work that never ends. The figure 0.042 means that a copy was still waiting\nafter 200 ms:',
    ...BESIDE_COPIES.map((beside) => table(beside, BLOCK_BYTES_BESIDE)),
  ].join('\n\n');
}
