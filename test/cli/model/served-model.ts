// Serves a model in a separate process, as a user starts it, for a test or a suite.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { answerOf } from '../../serve/support/served.js';
import { llamaForTests } from '../../support/llama/library.js';
import { until } from '../../support/waiting.js';

const MAIN = scriptArguments(import.meta.url, '../../../src/cli/main');

/** A word of the command line, or further variables of the environment. */
type ServerArgument = string | { readonly environment: NodeJS.ProcessEnv };

/** `blockstep serve` in a process of its own, as a user starts it, until the test ends. */
export async function serveModel(file: string, ...args: ServerArgument[]) {
  const served = await startServer(file, ...args);
  onTestFinished(served.end);
  return served;
}

/** The same for a suite, which must end it. */
export async function startServer(file: string, ...args: ServerArgument[]) {
  const { folder } = llamaForTests();
  const words = args.filter((each) => typeof each === 'string');
  const given = args.filter((each) => typeof each === 'object').map(({ environment }) => environment);
  const child = spawn(process.execPath, [...MAIN, 'serve', '--port', '0', '--model', file, ...words], {
    env: Object.assign(
      { ...process.env, BLOCKSTEP_LLAMA_LIBRARY: folder ?? '' },
      ...given,
    ) as NodeJS.ProcessEnv,
  });
  const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
  const end = async (): Promise<void> => {
    child.kill('SIGKILL');
    await ended;
  };
  const said = { stdout: '', stderr: '' };
  child.stdout.on('data', (bytes) => {
    said.stdout += bytes;
  });
  child.stderr.on('data', (bytes) => {
    said.stderr += bytes;
  });
  await until(() => said.stdout.includes('Try:') || child.exitCode !== null, 'an address');
  const url = /http:\/\/\S+/.exec(said.stdout)?.[0] ?? '';
  const post = (path: string, body: object): Promise<Response> =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const ask = (path: string, body: object) => answerOf(post(path, body));
  return { child, ended, end, said, url, post, ask };
}
