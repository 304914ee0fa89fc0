import { parseArgs } from 'node:util';
import { GROUPS, type Group } from './rows/row.js';

/** The options of the benchmark, and the text of `--help`. */
export interface Options {
  only: Group | null;
  quick: boolean;
  out: string | null;
  write: boolean;
  /** Path of the page; '' = beside the result, null = no page. */
  report: string | null;
  /** A result file to show instead of measuring; null = measure. */
  from: string | null;
}

/** The text of `--help` for each group, in the order in which they run. */
const ABOUT: Record<Group, string> = {
  calibration: 'what the machine does with a bare loop and with an empty native call',
  decode: 'one whole step, schedule() and update(), of 1 to 1,024 running decodes',
  mixed: 'one whole step of a full engine: prefills beside decodes, ends, replacements',
  lives: 'steps of 64 in schedulers that one process makes and disposes in a loop',
  operations: 'what a request of 2,048 tokens costs, in pools of 10k to 1M blocks',
  'kv-groups': 'a step of 256 decodes, and a long hit, with several KV cache groups',
  tables: 'gathering the tables of a step for a model runner',
  reference: 'one step of the reference executor',
  transfers: 'completions, submitted copies, and a host lane beside a plain memcpy',
  heap: 'what a step allocates in V8, and what a request holds',
  engine: 'the same steps through an Engine with an executor that does nothing',
  cuda: 'the steps of decode, mirrored on a GPU and not; only where there is one',
};

const groups = GROUPS.map((name) => `  ${name.padEnd(12)} ${ABOUT[name]}`).join('\n');

export const HELP = `Usage: npm run bench -- [options]

Measures what the scheduler itself costs, prints tables, and writes the figures
to bench/results/<date>-<commit>-<machine>.json.

Options:
  --vs CHECKOUT    instead: this build beside another one, by turns in one process.
                   This is how a change is judged; --vs CHECKOUT --help says more
  --tail           instead: what the slowest steps are; --tail --help says more
  --only GROUP     measure one group, and the calibration
  --quick          far fewer samples: the p99 is rough
  --out FILE       write the figures to FILE
  --no-write       write no figures
  --report [PAGE]  write an HTML page with charts as well, to PAGE or beside the figures
  --from RESULT    show an earlier result in a page instead of measuring anything
  -h, --help       show this

Groups:
${groups}

How to read the figures: each is the time of one operation in microseconds, less
the time to read the clock. On a quiet machine read the p50, and the p99 for the
tail; look at the line "load" first. On a busy machine the p50 tells about the
machine: read min and p1, which are samples that nobody interrupted, and
"p50 / bare loop", since the bare loop ran in the same minute. Min alone
flatters: of the decodes it is a step without a tick of anything else.

A decode fills a block for one request in 16; blocks are published to the prefix
cache, which is on. A "cached" pool has its free queue full of cached blocks, so
that every block that is taken evicts one; an "empty" pool has none. The model is
never part of a figure, nor is making prompts, nor adding requests unless it says
so. Heap bytes count garbage too; "per request" is what one more running request
adds to a step.`;

/**
 * Reads the command line; null = it asks for help.
 * @throws Error that says what is wrong with it
 */
export function readOptions(args: readonly string[]): Options | null {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      out: { type: 'string' },
      'no-write': { type: 'boolean', default: false },
      report: { type: 'boolean', default: false },
      from: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const only = GROUPS.find((group) => group === values.only) ?? null;
  if (values.only !== undefined && only === null) {
    throw new Error(`--only must be one of ${GROUPS.join(', ')}, got ${values.only}`);
  }
  const extra = positionals[values.report ? 1 : 0];
  if (extra !== undefined) throw new Error(`unexpected argument ${extra}`);
  const report = values.report ? (positionals[0] ?? '') : null;
  const { quick, out = null, from = null } = values;
  if (values['no-write'] && report === '')
    throw new Error('--no-write needs the path of the page: --report PAGE');
  if (from !== null && (report === null || quick || out !== null || only !== null)) {
    throw new Error('--from goes with --report alone: it measures nothing');
  }
  return { only, quick, out, write: !values['no-write'], report, from };
}
