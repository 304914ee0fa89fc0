// `npm run test:long -- strangers`: ten minutes of 200 connections, and the time of `/health`
// meanwhile.
import { spawn } from 'node:child_process';
import { constants, setPriority } from 'node:os';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { besiege } from './siege.js';

const USAGE = `npm run test:long -- strangers [--seconds N] [--connections N] [-- FLAGS OF blockstep serve]
A server in a process of its own, and hostile texts of up to 8 MB over many connections. /health is to answer below 100 ms at p99.
  --seconds N      how long (default 600)
  --connections N  how many (default 200)
  --model FILE     over a model in place of the reference executor`;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '600' },
    connections: { type: 'string', default: '200' },
    model: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
let end = Number.POSITIVE_INFINITY;
const model = values.model === undefined ? [] : ['--model', values.model];
const main = scriptArguments(import.meta.url, '../../../src/cli/main');
const server = spawn(process.execPath, [...main, 'serve', '--port', '0', ...model], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
let said = '';
const url = await new Promise<string>((resolve, reject) => {
  server.once('exit', (code, signal) => reject(new Error(`the server ended: ${signal ?? code}`)));
  server.stdout.on('data', (bytes) => {
    said += bytes;
    const [found] = /http:\/\/[^\s/]+/.exec(said) ?? [];
    if (said.includes('Try:') && found !== undefined) resolve(found);
  });
});
server.removeAllListeners('exit').once('exit', (code, signal) => {
  if (performance.now() > end) return;
  console.error(`the server ended: ${signal ?? code}`);
  process.exit(1);
});
end = performance.now() + 1000 * Number(values.seconds);
const watch = spawn(process.execPath, [...scriptArguments(import.meta.url, './watch'), url], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const watched = text(watch.stdout);
// The processor time of the siege must not be measured.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
const lengths = [1000, 10_000, 100_000, 1_000_000, 4_000_000, 7_900_000];
const siege = besiege(url, Number(values.connections), lengths, () => performance.now() > end);
await setTimeout(end - performance.now());
watch.stdin.end();
const health = JSON.parse(await watched) as number[];
server.kill('SIGKILL');
const statuses = await siege;
const sorted = health.toSorted((a, b) => a - b);
const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
const figures = [0.5, 0.9, 0.99, 1].map((share) => `p${100 * share} ${at(share).toFixed(1)} ms`);
console.log(`${sorted.length} answers of /health: ${figures.join(', ')}`);
console.log(`others by status: ${[...statuses].map(([status, count]) => `${status}: ${count}`).join(', ')}`);
process.exit(at(0.99) < 100 && !statuses.has(500) ? 0 : 1);
