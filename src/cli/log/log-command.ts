// The command that replays a recorded log, and its report.
import CliTable3 from 'cli-table3';
import { ExitCode, type Io, type Job } from '../terminal/io.js';
import {
  type CheckedLog,
  checkLog,
  type Difference,
  hex,
  type LogOutcome,
  runLogAgain,
} from './log-check.js';
import { readWhole } from './log-file.js';

/** The outcome of `replay --log`, as `--json` prints it. */
export interface LogReport {
  log: string;
  bytes: number;
  options: Record<string, unknown>;
  requests: number;
  steps: number;
  commands: number;
  identical: boolean;
  difference: Difference | null;
  /**
   * Digest of the native state at the end, 16 hex digits: `recordedDigest` after the log's
   * commands, `digest` after the repeated run.
   */
  recordedDigest: string;
  digest: string;
}

/**
 * Prepares running a recorded log again: reads all of it.
 * @throws ERR_BLOCKSTEP_BAD_FILE, ERR_BLOCKSTEP_BAD_LOG
 */
export function prepareLog(path: string, json: boolean, io: Io): Job {
  // The following work never yields to the event loop, so an interrupt would go unnoticed.
  io.passInterrupts?.();
  const log = checkLog(readWhole(path));
  return () => {
    const report = makeLogReport(path, log, runLogAgain(log));
    io.stdout.write(json ? `${JSON.stringify(report)}\n` : renderLog(report));
    return Promise.resolve(report.identical ? ExitCode.ok : ExitCode.differs);
  };
}

function makeLogReport(path: string, log: CheckedLog, { steps, digest, difference }: LogOutcome): LogReport {
  return {
    log: path,
    bytes: log.bytes.length,
    options: { ...log.header },
    requests: log.requests,
    steps,
    commands: log.expected.commands,
    identical: difference === null,
    difference,
    recordedDigest: hex(log.expected.digest),
    digest: hex(digest),
  };
}

function renderLog(report: LogReport): string {
  const { difference } = report;
  const count = (value: number): string => value.toLocaleString('en-US');
  const rows: [string, string][] = [
    ['log', `${report.log}: ${count(report.bytes)} bytes`],
    ['requests', count(report.requests)],
    ['steps', count(report.steps)],
    ['commands', count(report.commands)],
    ['decisions', difference === null ? 'identical' : 'DIFFERENT'],
    ['digest', report.digest],
  ];
  if (difference !== null) {
    const { step, byte, field, expected, found } = difference;
    rows.push(['first difference', `step ${step}, in the call that ends at byte ${byte} of the log`]);
    rows.push(['field', field], ['expected', expected], ['found', found]);
  }
  const table = new CliTable3({ style: { head: [], border: [], compact: true } });
  table.push(...rows);
  return `${table.toString()}\n`;
}
