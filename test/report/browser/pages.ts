import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { benchPage } from '../../../bench/report/page.js';
import { BASELINE, readResults } from '../../../bench/rows/results.js';
import type { Report } from '../../../src/cli/replay/report/report.js';
import { loadPlotLibrary } from '../../../src/report/page/library.js';
import { answer, type FakeOptions, openFakeServer, trace } from '../../cli/http/fake-server.js';
import { run } from '../../cli/run-program.js';

const HOSTILE = `"><b id=hacked>'&lt;\u202e`;

/** Writes a file and gives its path. */
type Write = (name: string, content: string) => string;

/** Pages of all kinds, by their content. */
export interface Pages {
  paths: ReadonlyMap<string, string>;
  /** The contents of the first page, as `--json` prints them. */
  report: Report;
}

export async function makePages(write: Write): Promise<Pages> {
  const paths = new Map<string, string>();
  const replayPage = async (name: string, ...args: string[]): Promise<Report> => {
    const path = write(`${name}.html`, '');
    const { code, stdout, stderr } = await run(['replay', '--json', '--report', path, ...args]);
    if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
    paths.set(name, path);
    return JSON.parse(stdout) as Report;
  };
  await httpPages(write, paths);
  const busy = ['--request-rate', '60', '--num-blocks', '3000', '--abort-rate', '0.1'];
  const report = await replayPage('a busy replay', '--requests', '600', ...busy);
  await replayPage('one request', '--requests', '1');
  await replayPage('nothing generated', '--requests', '3', '--abort-rate', '1', '--seed', '5');
  const slow = ['--max-num-seqs', '1', '--step-overhead-ms', '90000'];
  await replayPage('a slow replay', '--requests', '40', ...slow);
  await replayPage('hostile names', hostileTrace(write), '--skip-bad');
  const results = readResults(BASELINE);
  const library = loadPlotLibrary();
  paths.set('the benchmark', write('bench.html', benchPage(results, library, ['--report'])));
  const names = `</script><script>document.title='hacked'</script>${HOSTILE}`;
  const rows = results.rows.map((row, i) => (i % 9 === 0 ? { ...row, name: `${i} ${names}` } : row));
  const hostile = benchPage({ ...results, rows }, library, ['--report', names]);
  paths.set('a hostile benchmark', write('bench2.html', hostile));
  return { paths, report };
}

/** Pages of replays over HTTP: of a server that does well and counts, and of one whose names try to leave the page's markup. */
async function httpPages(write: Write, paths: Map<string, string>): Promise<void> {
  const hostile = `</script><script>document.title='hacked'</script>${HOSTILE}`;
  const counts = 'vllm:num_preemptions_total 1\nvllm:kv_cache_usage_perc 0.5\n';
  const servers: [name: string, options: FakeOptions][] = [
    ['a replay over HTTP', { metrics: [counts] }],
    [
      'a hostile server',
      {
        models: (response) => response.end(JSON.stringify({ data: [{ id: hostile }] })),
        complete: (asked, response) => {
          if (asked.index > 4) return answer(asked, response);
          return response.writeHead(500).end(JSON.stringify({ error: { message: hostile } }));
        },
      },
    ],
  ];
  for (const [name, options] of servers) {
    const server = await openFakeServer(options);
    const path = write(`${name}.html`, '');
    const requests = write('http.jsonl', trace(60, 10, 30));
    const { stdout } = await run(['replay', requests, '--json', '--report', path, '--url', server.url]);
    server.close();
    if (stdout === '') throw new Error(`${name} gave no report`);
    paths.set(name, path);
  }
}

/** A trace in a folder and a file whose names together try to leave the page's markup. */
function hostileTrace(write: Write): string {
  const folder = join(dirname(write('x', '')), `${HOSTILE}<`);
  mkdirSync(folder);
  const path = join(folder, `script><script>document.title='hacked'<`);
  mkdirSync(path);
  const file = join(path, 'script>.jsonl');
  const line = { timestamp: 0, input_length: 600, output_length: 9, hash_ids: [1, 2] };
  writeFileSync(file, `${JSON.stringify(line)}\n{"timestamp":"</script>"}\n`);
  return file;
}
