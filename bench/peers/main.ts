// The program `npm run bench:peers`: peers take turns, and it prints tables.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { describeMachine, REPOSITORY, readMachine } from '../machine.js';
import { quantile } from '../rows/quantile.js';
import { figure, render } from '../rows/table.js';
import { answerHelp } from '../usage.js';
import { Peer } from './peer.js';
import { type PeerWorkload, WORKLOADS } from './workloads.js';

const USAGE = `Usage: npm run bench:peers -- [--peer 'COMMAND' ...] [options]

Measures schedulers side by side: blockstep, a bare loop that only counts, and each
program that is named and speaks the protocol of bench/peers/README.md.

Options:
  --peer 'COMMAND'   a peer, started by a shell; may be given again
  --only WORKLOAD    one of ${Object.keys(WORKLOADS).join(', ')}
  --timeout SECONDS  how long a peer may think about one message (default 30)
  --quick            fewer turns
  -h, --help         show this

The peers take turns. "p50" and "p99" are microseconds of a step by the peer's own
clock (of one-2048: adding a request and its step); a "~" before them: the peer has
no clock, so it is the time on the pipe less what the pipe costs the bare loop.
"on the pipe" is what the benchmark saw, for one step.

Exit code: 0 all were measured, 1 a peer was left out, 2 bad arguments.`;

const TURNS = 40;

/** One peer in one workload. */
interface Runner {
  readonly peer: Peer;
  readonly workload: PeerWorkload;
  us: number[] | null;
  readonly walls: number[];
}

/** Peers that are left. */
let peers: Peer[] = [];
let bareLoop: Peer | undefined;

/** Leaves a peer out from now on, and says why. */
function leaveOut(peer: Peer, where: string, error: unknown): void {
  console.error(`peer "${peer.name}", ${where}: ${error instanceof Error ? error.message : String(error)}`);
  peers = peers.filter((each) => each !== peer);
  peer.kill();
  process.exitCode = 1;
}

/** Measures one workload, and prints its table. */
async function measure(name: string, turns: number): Promise<void> {
  let runners: Runner[] = peers.map((peer) => {
    return { peer, workload: WORKLOADS[name](peer, turns), us: [], walls: [] };
  });
  const each = async (act: (runner: Runner) => Promise<void>): Promise<void> => {
    for (const runner of runners) await act(runner).catch((error) => leaveOut(runner.peer, name, error));
    runners = runners.filter(({ peer }) => peers.includes(peer));
  };
  await each(({ workload }) => workload.prepare());
  for (let turn = 0; turn < turns; turn++) {
    // Another runner is the first one each time.
    const [first, ...rest] = runners;
    if (first !== undefined) runners = [...rest, first];
    await each(async (runner) => {
      const { us, wallUs } = await runner.workload.turn();
      if (us === null) runner.us = null;
      else runner.us?.push(...us);
      runner.walls.push(wallUs);
    });
  }
  await each(({ workload }) => workload.finish());
  const bare = runners.find(({ peer }) => peer === bareLoop);
  if (bare === undefined)
    throw new Error(`the bare loop, which the others are compared with, failed in ${name}`);
  const pipe = quantile(bare.walls, 0.5) - quantile(bare.us ?? [], 0.5);
  const rows = peers.flatMap((peer) => runners.filter((runner) => runner.peer === peer));
  console.log(
    render(
      [name, ...HEAD],
      rows.map((runner) => rowOf(runner, bare, pipe)),
    ),
  );
  console.log(`the pipe costs the bare loop ${figure(pipe)} µs a step\n`);
}

const HEAD = ['p50 µs', 'p99 µs', 'p50 over the bare loop', 'on the pipe, µs'];

/** @param pipe the cost of the pipe for the bare loop, in microseconds a step */
function rowOf({ peer, us, walls }: Runner, bare: Runner, pipe: number): string[] {
  const own = us ?? walls.map((wall) => Math.max(0, wall - pipe));
  const mark = us === null ? '~' : '';
  const p50 = quantile(own, 0.5);
  return [
    peer.name,
    mark + figure(p50),
    mark + figure(quantile(own, 0.99)),
    mark + figure(p50 / quantile(bare.us ?? [], 0.5)),
    figure(quantile(walls, 0.5)),
  ];
}

/** A command for a shell. */
function command(args: readonly string[]): string {
  return [process.execPath, ...args].map((arg) => `'${arg.replaceAll("'", "'\\''")}'`).join(' ');
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      peer: { type: 'string', multiple: true, default: [] },
      only: { type: 'string' },
      timeout: { type: 'string', default: '30' },
      quick: { type: 'boolean', default: false },
    },
  });
  const names = Object.keys(WORKLOADS).filter((name) => (values.only ?? name) === name);
  if (names.length === 0)
    throw new Error(`--only must be one of ${Object.keys(WORKLOADS).join(', ')}, got ${values.only}`);
  const timeout = Number(values.timeout);
  if (!(timeout > 0 && timeout <= 3600))
    throw new Error(`--timeout must be a number of seconds above 0 and up to 3600, got ${values.timeout}`);
  const bare = join(REPOSITORY, 'bench', 'peers', 'bare.mjs');
  const commands = [command([bare]), command(scriptArguments(import.meta.url, './ours')), ...values.peer];
  peers = commands.map((one) => new Peer(one, timeout * 1000));
  [bareLoop] = peers;
  try {
    for (const peer of [...peers]) await peer.hello().catch((error) => leaveOut(peer, 'hello', error));
    console.log(`${describeMachine(readMachine())}\n`);
    for (const name of names) await measure(name, values.quick ? TURNS / 8 : TURNS);
    for (const peer of [...peers]) await peer.close();
  } finally {
    for (const peer of peers) peer.kill();
  }
}

answerHelp(USAGE);
try {
  await main();
} catch (error) {
  console.error(`bench:peers: ${(error as Error).message}`);
  process.exitCode = 2;
}
