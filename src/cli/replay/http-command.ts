// The command `blockstep replay --url`: asks the server, runs, reports.
import { BlockstepError } from '../../base/errors.js';
import { EventLoopDelay } from '../../base/event-loop-delay.js';
import { counted, duration } from '../../report/markup/figures.js';
import type { Workload } from '../../workload/workload.js';
import { ExitCode, type Invocation, type Io, type Job } from '../terminal/io.js';
import { oneLine } from './http/client/call-failure.js';
import { HttpClient } from './http/client/http-client.js';
import { servedModel } from './http/client/served-model.js';
import { growthOf, readServerCounts } from './http/client/server-counts.js';
import { readServerUrl } from './http/client/server-url.js';
import { httpPage } from './http/page/http-page.js';
import { type HttpReport, makeHttpReport } from './http/report/http-report.js';
import { renderHttpTable } from './http/report/http-table.js';
import { HttpReplay, type HttpReplayOptions } from './http/run/http-replay.js';
import { HttpSeries } from './http/run/http-series.js';
import { Progress } from './progress.js';
import type { ReplayFlags } from './replay-flags.js';
import { ReplayOutputs } from './replay-outputs.js';
import type { Source } from './report/report.js';
import { withoutSecrets } from './server-flags.js';
import { loadWorkload } from './workload-source.js';

/** Milliseconds between two updates of the progress bar. */
const PROGRESS_MS = 250;

/** A replay over HTTP with all its input. */
interface Prepared extends Invocation {
  readonly replay: HttpReplay;
  readonly series: HttpSeries;
  readonly client: HttpClient;
  readonly source: Source;
  readonly options: HttpReplayOptions;
  readonly outputs: ReplayOutputs;
  readonly json: boolean;
}

/**
 * Prepares a replay over HTTP: reads the workload, and asks the server for its models.
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_SERVER, and the errors of reading a trace and
 * opening a page
 */
export async function prepareHttpReplay(
  file: string | undefined,
  flags: ReplayFlags & { readonly url: string },
  { io, args }: Invocation,
): Promise<Job> {
  const interrupted: Job = () => Promise.resolve(ExitCode.interrupted);
  // An empty environment variable counts as absent.
  const client = new HttpClient(readServerUrl(flags.url, flags.apiKey || undefined));
  const outputs = new ReplayOutputs(flags, file);
  try {
    const loaded = await loadWorkload(file, flags, io);
    const model = loaded === null ? null : await askModel(client, flags.model, io);
    if (loaded === null || model === null) {
      outputs.discard();
      client.close();
      return interrupted;
    }
    const { workload, source } = loaded;
    const options = optionsOf(flags, model);
    const replay = new HttpReplay(workload, client, options);
    const series = new HttpSeries(replay.lastArrivalMs, workload.length);
    replay.observe(series);
    announce(workload, replay.lastArrivalMs, client, { model, json: flags.json, io, source });
    return () => run({ replay, series, client, source, options, outputs, json: flags.json, io, args });
  } catch (error) {
    outputs.discard();
    client.close();
    throw error;
  }
}

/** The model to request; null if the user has interrupted, which is printed. */
async function askModel(client: HttpClient, wanted: string | undefined, io: Io): Promise<string | null> {
  try {
    return await servedModel(client, wanted, io.signal);
  } catch (error) {
    if (!io.signal.aborted) throw error;
    io.stderr.write('interrupted before anything was sent\n');
    return null;
  }
}

function optionsOf(flags: ReplayFlags, model: string): HttpReplayOptions {
  const { speedUp, abortRate, seed, ignoreEos, vocabularySize, concurrency, timeoutS } = flags;
  return {
    model,
    ignoreEos,
    vocabularySize,
    speedUp,
    abortRate,
    seed,
    concurrency: concurrency ?? null,
    timeoutMs: 1000 * timeoutS,
  };
}

function announce(
  { length }: Workload,
  lastArrivalMs: number,
  { server }: HttpClient,
  { model, json, io, source }: { model: string; json: boolean; io: Io; source: Source },
): void {
  if (json) return;
  const requests = counted(length, source.file === null ? 'generated request' : 'request');
  const within = `within ${duration(lastArrivalMs)} of real time`;
  io.stderr.write(
    `Sending ${requests} ${within} to ${server.base}, model ${JSON.stringify(oneLine(model))}.\n`,
  );
}

async function run(prepared: Prepared): Promise<number> {
  const { replay, client, outputs, io, source } = prepared;
  const bar = io.stderr.isTTY === true ? new Progress(io.stderr, source.requests) : null;
  const show = (): void => bar?.update(replay.measurements.numEnded, `${duration(replay.nowMs)} real`);
  const delay = new EventLoopDelay();
  let timer: NodeJS.Timeout | undefined;
  try {
    const before = await readServerCounts(client, io.signal);
    delay.start();
    if (bar !== null) timer = setInterval(show, PROGRESS_MS);
    const complete = await replay.run(io.signal);
    show();
    bar?.stop();
    delay.stop();
    const delays = delay.read();
    // A failed server is not asked.
    const after = before === null || replay.failure !== null ? null : await readServerCounts(client);
    const growth = growthOf(before, after);
    prepared.series.end(replay.nowMs);
    const facts = { source, url: client.server.base, options: prepared.options, growth, delays, complete };
    return conclude(prepared, makeHttpReport(replay, prepared.series, facts));
  } finally {
    clearInterval(timer);
    delay.stop();
    bar?.stop();
    client.close();
    outputs.discard();
  }
}

/**
 * Prints the report and writes the page.
 * @returns the exit code
 * @throws ERR_BLOCKSTEP_SERVER if there is nothing to report
 */
function conclude({ replay, series, outputs, json, io, args }: Prepared, report: HttpReport): number {
  const { failure, measurements } = replay;
  const problem = failure === null ? null : `the replay ended early: ${failure}`;
  if (problem !== null && measurements.numFinished === 0)
    throw new BlockstepError('ERR_BLOCKSTEP_SERVER', problem);
  if (json) io.stdout.write(`${JSON.stringify(report)}\n`);
  else io.stdout.write(renderHttpTable(report));
  const words = withoutSecrets(args);
  outputs.writePage(({ host, date }, plots) =>
    httpPage({ report, measurements, series, args: words, host, date }, plots),
  );
  for (const path of outputs.commit()) io.stderr.write(`written to ${path}\n`);
  if (problem !== null) io.stderr.write(`ERR_BLOCKSTEP_SERVER: ${problem}\n`);
  else if (report.incomplete) return ExitCode.interrupted;
  else if (measurements.numFailed === 0) return ExitCode.ok;
  else {
    const failed = counted(measurements.numFailed, 'request');
    io.stderr.write(`${failed} failed, the first: ${measurements.firstFailure}\n`);
  }
  return ExitCode.failed;
}
