import { onTestFinished } from 'vitest';
import { until } from '../support/waiting.js';
import { start } from './run-program.js';

/** The answer to a completion, as far as these tests read it. */
interface Completion {
  readonly model: string;
  readonly choices: readonly { readonly text: string; readonly finish_reason: string }[];
  readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } };
}

/** Serves with these arguments of `blockstep serve`, until the test ends. */
export async function serveProgram(...args: string[]) {
  const interrupt = new AbortController();
  const command = start(['serve', '--port', '0', ...args], interrupt.signal);
  onTestFinished(async () => {
    interrupt.abort();
    await command.ended;
  });
  await until(() => command.said.stdout.includes('Try:') || command.said.code !== null, 'an address');
  const [url] = /http:\/\/\S+/.exec(command.said.stdout) ?? [command.said.stderr];
  const complete = async (body: object) => {
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return (await response.json()) as Completion;
  };
  return { ...command, url, complete, interrupt };
}
