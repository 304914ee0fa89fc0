import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HttpReport } from '../../../src/cli/replay/http/report/http-report.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { run } from '../run-program.js';
import { type FakeOptions, fakeServer } from './fake-server.js';

/**
 * Replays a trace at a fake server, and returns what the server saw, how the command ended, and its
 * report. There is no report if the command failed earlier.
 */
export async function replayAt(options: FakeOptions, text: string, ...args: string[]) {
  const server = await fakeServer(options);
  const path = join(temporaryFolder(), 'trace.jsonl');
  writeFileSync(path, text);
  const { code, stdout, stderr } = await run(['replay', path, '--json', '--url', server.url, ...args]);
  const report = stdout === '' ? null : (JSON.parse(stdout) as HttpReport);
  return { ...server, path, code, stdout, stderr, report: report as HttpReport };
}
