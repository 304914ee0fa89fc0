/** `npm run bench:serve`: servers and clients by turns; `--help` says what it measures. Prints tables in Markdown. */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { printTable } from '../connectors/support/table.js';
import { describeMachine, readMachine } from '../machine.js';
import { answerHelp } from '../usage.js';
import { Child, python } from './child.js';
import type { ClientWindow, ServerMessage, ServerWindow } from './messages.js';

const USAGE = `npm run bench:serve -- [--rounds N] [--streams LIST] [--seconds N] [--pace LIST]
What a token costs between the executor's answer and the socket: our server over an executor that costs nothing, and a server of node:http alone
that writes the same bytes, and ours over a scheduler that does nothing; where it is installed (python3-fastapi, python3-uvicorn, python3-uvloop), FastAPI too. Clients are in a process of their own. Servers take turns; figures are medians of the rounds.
  --rounds N      default 5
  --streams LIST  default 1,64,256,1000
  --seconds N     for which each is measured; default 3
  --pace LIST     milliseconds between two steps; 0 is as fast as it goes; default 0,20`;

const PROGRAMS = {
  plain: 'plain',
  ours: 'ours',
  unscheduled: 'unscheduled',
  fastapi: 'fastapi_server.py',
} as const;
type Server = keyof typeof PROGRAMS;

interface Measured {
  readonly server: ServerWindow;
  readonly client: ClientWindow;
}

async function measure(server: Server, streams: number, paceMs: number, seconds: number): Promise<Measured> {
  // More than a stream gets while it is measured.
  const tokens = Math.max(16_000, Math.ceil(2e6 / streams));
  const served = new Child(PROGRAMS[server], [paceMs, streams, tokens].map(String));
  const ready = await served.next<ServerMessage>();
  if (ready.kind !== 'ready') throw new Error('the server is not ready');
  const load = new Child('load', [ready.port, streams, tokens].map(String));
  try {
    await load.next();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    served.tell('begin');
    load.tell('begin');
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    served.tell('end');
    const message = await served.next<ServerMessage>();
    load.tell('end');
    const client = await load.next<ClientWindow>();
    if (message.kind !== 'window') throw new Error('the server measured nothing');
    return { server: message.window, client };
  } finally {
    load.end();
    served.end();
  }
}

/** FastAPI and its dependencies, with their versions; null if they are not installed. */
function fastApi(): string | null {
  const program =
    'import fastapi, uvicorn, uvloop, pydantic; print("FastAPI", fastapi.__version__, "uvicorn", uvicorn.__version__, "uvloop", uvloop.__version__, "pydantic", pydantic.VERSION)';
  const { status, stdout } = spawnSync(python(), ['-c', program], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : null;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

function row(name: string, all: readonly Measured[], plain: readonly Measured[]): string[] {
  const of = (get: (measured: Measured) => number): number => median(all.map(get));
  const perToken = ({ server }: Measured): number => (1000 * server.processorMs) / server.tokens;
  const idle = all.some(({ server }) => server.idleP50 === null)
    ? ''
    : of(({ server }) => server.idleP50 as number).toFixed(3);
  return [
    name,
    Math.round(of(({ server }) => (1000 * server.tokens) / server.ms)).toLocaleString('en'),
    of(perToken).toFixed(2),
    (of(perToken) / median(plain.map(perToken))).toFixed(2),
    of(({ server }) => (100 * server.processorMs) / server.ms).toFixed(0),
    of(({ client }) => client.firstP50).toFixed(1),
    of(({ client }) => client.firstP99).toFixed(1),
    of(({ client }) => client.betweenP50).toFixed(2),
    of(({ client }) => client.betweenP99).toFixed(2),
    all[0].server.delayP99 === null ? '' : of(({ server }) => server.delayP99 as number).toFixed(2),
    idle,
  ];
}

const NAMES: Readonly<Record<Server, string>> = {
  plain: 'node:http',
  ours: 'blockstep',
  unscheduled: 'without a scheduler',
  fastapi: 'FastAPI',
};
const HEAD = [
  'streams',
  'tokens/s',
  'processor µs a token',
  'over plain',
  '% of a core',
  'first p50 ms',
  'first p99',
  'between p50 ms',
  'between p99',
  'event loop p99 ms',
  'executor idle p50 ms',
];

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      streams: { type: 'string', default: '1,64,256,1000' },
      seconds: { type: 'string', default: '3' },
      pace: { type: 'string', default: '0,20' },
    },
  });
  const python = fastApi();
  const SERVERS: Server[] = [
    'plain',
    'ours',
    'unscheduled',
    ...(python === null ? [] : (['fastapi'] as const)),
  ];
  console.log(`${describeMachine(readMachine())}${python === null ? ', no FastAPI' : `, ${python}`}\n`);
  const list = (text: string): number[] => text.split(',').map(Number);
  for (const paceMs of list(values.pace)) {
    const rows: string[][] = [];
    for (const streams of list(values.streams)) {
      const measured = new Map<Server, Measured[]>(SERVERS.map((server) => [server, []]));
      for (let round = 0; round < Number(values.rounds); round++)
        for (const [server, all] of measured)
          all.push(await measure(server, streams, paceMs, Number(values.seconds)));
      for (const [server, all] of measured)
        rows.push(row(`${streams}, ${NAMES[server]}`, all, measured.get('plain')!));
    }
    printTable(HEAD, rows, paceMs === 0 ? 'As fast as it goes' : `A step every ${paceMs} ms`);
  }
}

answerHelp(USAGE);
await main();
process.exit(0);
