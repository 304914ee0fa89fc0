import { basename } from 'node:path';
import { counted } from '../../report/markup/figures.js';
import type { Io } from '../terminal/io.js';
import type { ReplayFlags } from './replay-flags.js';
import type { Report, Source } from './report/report.js';
import { renderTable } from './report/report-table.js';

/** Prints for a replay: its results on stdout; on stderr the workload, and commands to try next. */
export interface ReplayPrinter {
  /** Called before the replay runs. */
  begin(source: Source): void;
  /** The results. */
  report(report: Report): void;
  /** The suggestions, after all other output. */
  end(report: Report): void;
}

/** The printer for people or, with `--json`, for programs. */
export function makePrinter(flags: ReplayFlags, { stdout, stderr, again }: Io): ReplayPrinter {
  if (flags.json) {
    const nothing = (): void => undefined;
    return {
      begin: nothing,
      report: (report) => void stdout.write(`${JSON.stringify(report)}\n`),
      end: nothing,
    };
  }
  return {
    begin: (source) => void stderr.write(`${announcement(source)}\n`),
    report: (report) => void stdout.write(renderTable(report)),
    end: ({ incomplete, workload }) => {
      // Suggestions are for new users, who begin with a generated workload.
      if (!incomplete && workload.file === null) stderr.write(nextSteps(again, flags));
    },
  };
}

function announcement({ file, requests }: Source): string {
  const count = counted(requests, file === null ? 'generated request' : 'request');
  const from = file === null ? '' : ` of ${basename(file)}`;
  return `Replaying ${count}${from} through the scheduler in virtual time: no model runs, and no GPU.`;
}

/** Requests per second: more than the GPU of the default cost model can serve. */
const TOO_MANY = 60;

/** Commands to try next, without features that this command used already. */
function nextSteps(again: string, { report, requestRate }: ReplayFlags): string {
  const steps: [args: string, what: string][] = [
    ['--help', 'all options; traces of yours can be replayed too'],
  ];
  if (requestRate < TOO_MANY) {
    steps.unshift([`--request-rate ${TOO_MANY}`, 'more than the assumed GPU can serve']);
  }
  if (report === undefined) steps.unshift(['--report replay.html', 'the same as a page with charts']);
  const width = Math.max(...steps.map(([args]) => args.length));
  const lines = steps.map(([args, what]) => `  ${again} ${args.padEnd(width)}  # ${what}\n`);
  return `\nTo try next:\n${lines.join('')}`;
}
