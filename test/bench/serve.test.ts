// The benchmark of the server: it runs, and a server that refuses its requests ends it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { scriptArguments } from '../../src/base/scripts/script-file.js';

/** Runs a program of the benchmark. @returns its exit code and its output */
async function run(name: string, ...args: string[]) {
  const child = spawn(process.execPath, [
    ...scriptArguments(import.meta.url, `../../bench/serve/${name}`),
    ...args,
  ]);
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
  const [code] = await once(child, 'exit');
  return { code: code as number | null, text };
}

it('measures the servers in turns', async () => {
  const args = '--rounds 1 --streams 2 --seconds 0.1 --pace 0'.split(' ');
  const { code, text } = await run('main', ...args);
  expect(code, text).toBe(0);
  expect(text).toMatch(/\| 2, blockstep \| [1-9]/);
});

it('ends where a stream is refused', async () => {
  const server = createServer((_, response) => response.writeHead(403).end('no'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { code, text } = await run('load', String((server.address() as AddressInfo).port), '2', '10');
  server.close();
  expect(code).toBe(1);
  expect(text).toContain('the server refused a stream: HTTP/1.1 403 Forbidden');
});
