// `llama-server`, in a separate process.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Contender } from './contenders.js';

/** Clock ticks of Linux in a second, the unit of a process's processor time. */
const TICKS = 100;

/**
 * llama.cpp's own server, one cache for all requests (`--kv-unified`), as it is otherwise by
 * default. A prompt goes to the slot that has most of it. Each run has a server of its own, so that
 * none finds prompts of the run before. Its start is not measured.
 * @param program path of `llama-server`
 */
export function llamaServer(path: string, program: string): Contender {
  return {
    name: 'llama-server',
    prepare: async ({ numSequences, threads, longest }) => {
      const port = await freePort();
      const sizes = ['-c', `${numSequences * longest}`, '-np', `${numSequences}`, '-b', '512', '-ub', '512'];
      const rest = [
        '--kv-unified',
        '-fa',
        'on',
        '-t',
        `${threads}`,
        '-tb',
        `${threads}`,
        '--port',
        `${port}`,
      ];
      const child = spawn(program, ['-m', path, ...sizes, ...rest, '--no-warmup', '-lv', '0'], {
        stdio: 'ignore',
      });
      const url = `http://127.0.0.1:${port}`;
      await ready(child, url);
      return {
        cpu: () => processorTime(child.pid as number),
        run: async (jobs, first) => {
          await Promise.all(jobs.map((job) => complete(url, job, first)));
        },
        end: async () => {
          const ended = once(child, 'exit');
          child.kill('SIGKILL');
          await ended;
        },
      };
    },
  };
}

async function complete(
  url: string,
  { prompt, out }: { readonly prompt: readonly number[]; readonly out: number },
  first: () => void,
): Promise<void> {
  const body = { prompt, n_predict: out, temperature: 0, top_k: 1, ignore_eos: true, stream: true };
  const response = await fetch(`${url}/completion`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok || response.body === null) throw new Error(`llama-server: ${await response.text()}`);
  let told = false;
  let text = '';
  const decoder = new TextDecoder();
  for await (const piece of response.body) {
    if (!told) first();
    told = true;
    text += decoder.decode(piece as Uint8Array, { stream: true });
  }
  // The last event has the whole prompt after this number.
  const count = Number([...text.matchAll(/"tokens_predicted":(\d+)/g)].at(-1)?.[1]);
  if (count !== out) throw new Error(`llama-server made ${count} tokens, expected ${out}`);
}

async function ready(child: ChildProcess, url: string): Promise<void> {
  for (let k = 0; k < 600; k++) {
    if (child.exitCode !== null) throw new Error(`llama-server ended with ${child.exitCode}`);
    const answer = await fetch(`${url}/health`).catch(() => null);
    if (answer?.ok) return;
    await sleep(100);
  }
  child.kill('SIGKILL');
  throw new Error('llama-server did not come up in a minute');
}

/** Milliseconds of processor time that a process has had. */
function processorTime(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name of the program is in parentheses, and may have spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (1000 * (Number(fields[11]) + Number(fields[12]))) / TICKS;
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}
