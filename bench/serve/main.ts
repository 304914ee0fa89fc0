/** `npm run bench:serve -- --help` says what it measures. Prints tables in Markdown. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { printTable } from '../connectors/support/table.js';
import { describeMachine, readMachine } from '../machine.js';
import { answerHelp } from '../usage.js';
import type { ClientWindow, ServerMessage, ServerWindow } from './messages.js';

const USAGE = `npm run bench:serve -- [--rounds N] [--streams LIST] [--seconds N] [--pace LIST]
What a token costs between the executor's answer and the socket: our server over an executor that costs nothing, and a server of node:http alone
that writes the same bytes. Clients are in a process of their own. Servers take turns; figures are medians of the rounds.
  --rounds N      default 5
  --streams LIST  default 1,64,256,1000
  --seconds N     for which each is measured; default 3
  --pace LIST     milliseconds between two steps; 0 is as fast as it goes; default 0,20`;

const SERVERS = ['plain', 'ours'] as const;
type Server = (typeof SERVERS)[number];

interface Measured {
  readonly server: ServerWindow;
  readonly client: ClientWindow;
}

function start(name: string, args: readonly string[]): ChildProcess {
  return fork(fileURLToPath(new URL(`${name}.js`, import.meta.url)), args);
}

async function measure(server: Server, streams: number, paceMs: number, seconds: number): Promise<Measured> {
  // More than a stream gets while it is measured.
  const tokens = Math.max(20_000, Math.ceil(2e6 / streams));
  const served = start(server, [paceMs, streams, tokens].map(String));
  const [ready] = (await once(served, 'message')) as [ServerMessage];
  if (ready.kind !== 'ready') throw new Error('the server is not ready');
  const load = start('load', [ready.port, streams, tokens].map(String));
  try {
    await once(load, 'message');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    served.send('begin');
    load.send('begin');
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    served.send('end');
    const [message] = (await once(served, 'message')) as [ServerMessage];
    load.send('end');
    const [client] = (await once(load, 'message')) as [ClientWindow];
    if (message.kind !== 'window') throw new Error('the server measured nothing');
    return { server: message.window, client };
  } finally {
    load.kill('SIGKILL');
    served.kill('SIGKILL');
  }
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
    of(({ server }) => server.delayP99).toFixed(2),
    idle,
  ];
}

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
  console.log(`${describeMachine(readMachine())}\n`);
  const list = (text: string): number[] => text.split(',').map(Number);
  for (const paceMs of list(values.pace)) {
    const rows: string[][] = [];
    for (const streams of list(values.streams)) {
      const measured: Record<Server, Measured[]> = { plain: [], ours: [] };
      for (let round = 0; round < Number(values.rounds); round++)
        for (const server of SERVERS)
          measured[server].push(await measure(server, streams, paceMs, Number(values.seconds)));
      rows.push(row(`${streams}, node:http`, measured.plain, measured.plain));
      rows.push(row(`${streams}, blockstep`, measured.ours, measured.plain));
    }
    printTable(HEAD, rows, paceMs === 0 ? 'As fast as it goes' : `A step every ${paceMs} ms`);
  }
}

answerHelp(USAGE);
await main();
process.exit(0);
