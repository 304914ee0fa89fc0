// Makes the engine and its server, and serves until it is interrupted.
import type { FastifyInstance } from 'fastify';
import { loadAddon } from '../../core/loader.js';
import { Engine } from '../../engine/engine.js';
import { KvEventPublisher } from '../../kv-events/index.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import { blockstepServer } from '../../serve/server/plugin.js';
import { ExitCode, type Io, type Job } from '../terminal/io.js';
import { schedulerOptions } from '../terminal/scheduler-flags.js';
import { makeApp } from './app.js';
import type { ServedExecutor } from './executor/served-executor.js';
import { makeExecutor } from './executors.js';
import { isLoopback, listen } from './listen.js';
import type { ServeFlags } from './serve-flags.js';

/** Default limit of a request in tokens, prompt and output. */
const MAX_MODEL_LEN = 32_768;

/** A request to try if the executor names none. */
const EXAMPLE = {
  path: '/v1/completions',
  body: { prompt: 'The quick brown fox jumps over the lazy dog. The quick', max_tokens: 32, stream: true },
};

/** A server that does not listen yet. */
interface Prepared {
  readonly engine: Engine;
  /** Null: KV cache events are not published. */
  readonly kvEvents: KvEventPublisher | null;
  readonly app: FastifyInstance;
  readonly served: ServedExecutor;
  /** The name of the model. */
  readonly id: string;
}

/**
 * Makes the server of the command line. The server listens when the job runs. The process belongs
 * to the server.
 */
export async function prepareServer(flags: ServeFlags & Record<string, unknown>, io: Io): Promise<Job> {
  loadAddon().sayFatalSignals();
  try {
    const prepared = await prepare(flags, io);
    return () => serve(prepared, flags, io);
  } catch (error) {
    // A model takes long to load, and a user who interrupts the loading wants no server.
    if (io.signal.aborted) return () => Promise.resolve(ExitCode.interrupted);
    throw error;
  }
}

async function prepare(flags: ServeFlags & Record<string, unknown>, io: Io): Promise<Prepared> {
  const options = { maxModelLen: MAX_MODEL_LEN, ...schedulerOptions(flags) };
  const kvEvents = flags.kvEventsConfig ? await KvEventPublisher.open(flags.kvEventsConfig) : null;
  try {
    const served = await makeExecutor(flags, options, io);
    return await prepareEngine(flags, served.options ?? options, { served, kvEvents }, io);
  } catch (error) {
    await kvEvents?.close();
    throw error;
  }
}

async function prepareEngine(
  flags: ServeFlags,
  options: SchedulerOptions,
  { served, kvEvents }: Pick<Prepared, 'served' | 'kvEvents'>,
  io: Io,
): Promise<Prepared> {
  const { executor, connector, workers, model } = served;
  const id = flags.servedModelName ?? model.id;
  let engine: Engine | null = null;
  try {
    engine = new Engine({
      ...options,
      kvEvents,
      executor,
      maxQueuedRequests: flags.maxQueuedRequests,
      // All requests are submitted at one place in the code.
      submitPlaces: 'none',
      ...(connector && { connector }),
      ...(workers && { workers }),
    });
    const app = makeApp(io.stderr, flags.logLevel);
    await app.register(blockstepServer, {
      engine,
      model: { ...model, id },
      apiKeys: flags.apiKey ?? [],
      allowedHosts: flags.allowedHosts ?? [],
      control: flags.control,
      page: flags.page,
      streamInterval: flags.streamInterval,
      maxBodyBytes: flags.maxBodyBytes,
      logPrompts: flags.logPrompts,
      drainMs: flags.drainMs,
    });
    return { engine, kvEvents, app, served, id };
  } catch (error) {
    engine?.dispose();
    // An engine that was not made does not own its executor.
    if (engine === null) await executor.dispose?.();
    await served.close?.();
    throw error;
  }
}

/** Listens, prints the address, and serves until it is interrupted. */
async function serve(
  { engine, kvEvents, app, served, id }: Prepared,
  flags: ServeFlags,
  io: Io,
): Promise<number> {
  const { host, port, drainMs } = flags;
  let url: string;
  try {
    url = await listen(app, host, port);
  } catch (error) {
    engine.dispose();
    await served.close?.();
    await kvEvents?.close();
    throw error;
  }
  const { path, body } = served.example ?? EXAMPLE;
  const key = flags.apiKey === undefined ? '' : ` -H "Authorization: Bearer KEY"`;
  io.stdout.write(`${JSON.stringify(id)} is served at ${url}\n`);
  for (const note of served.notes) io.stdout.write(`${note}\n`);
  if (kvEvents !== null) io.stdout.write(describeEvents(kvEvents));
  if (flags.apiKey === undefined && !isLoopback(app))
    io.stderr.write(
      'Everyone who reaches this address can generate, read and abort the requests of others, and pause the engine: --api-key requires a key.\n',
    );
  if (flags.page) io.stdout.write(`\nPage: ${url}/`);
  io.stdout.write(
    `\nTry:  curl -N ${url}${path}${key} -H "Content-Type: application/json" -d '${JSON.stringify(body)}'\n`,
  );
  if (!io.signal.aborted)
    await new Promise<void>((resolve) =>
      io.signal.addEventListener('abort', () => resolve(), { once: true }),
    );
  io.stderr.write(`\nending: unfinished requests may finish for ${drainMs} ms\n`);
  await app.close();
  await served.close?.();
  await kvEvents?.close();
  return ExitCode.ok;
}

function describeEvents({ endpoints: { events, replay } }: KvEventPublisher): string {
  return `KV cache events: ${events}${replay === null ? '' : `, replays at ${replay}`}\n`;
}
