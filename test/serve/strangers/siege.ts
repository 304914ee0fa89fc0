// Texts and bodies that take long, sent over many connections; and the health of the server
// meanwhile.
import { request } from 'node:http';

/** Texts that take long where something takes more time than their length: of so many characters. */
export const TEXTS: readonly ((length: number) => string)[] = [
  ...['.', ' ', 'a', 'A', '1', '漢', '\n', '😀', 'e\u0301', '/\n'].map(
    (part) => (length: number) => part.repeat(Math.ceil(length / part.length)),
  ),
  (length) => '<tool_call>'.repeat(Math.ceil(length / 11)),
  (length) => 'The quick brown fox, at 12:30. '.repeat(Math.ceil(length / 31)),
];

/** Bodies with a text in each place that takes one, and some that are no requests. */
export const BODIES: readonly ((text: string) => readonly [path: string, body: string])[] = [
  (text) => ['/v1/completions', JSON.stringify({ prompt: text, max_tokens: 1 })],
  (text) => [
    '/v1/completions',
    JSON.stringify({ prompt: Array(16).fill(text.slice(0, text.length / 16)), max_tokens: 1 }),
  ],
  (text) => [
    '/v1/chat/completions',
    JSON.stringify({ messages: [{ role: 'user', content: text }], max_tokens: 1 }),
  ],
  (text) => ['/tokenize', JSON.stringify({ prompt: text })],
  (text) => ['/v1/completions', `{"prompt": ${'['.repeat(text.length)}`],
  (text) => ['/v1/completions', `{"prompt": [${'1,'.repeat(text.length / 2)}1]}`],
  (text) => ['/v1/completions', JSON.stringify({ prompt: 'a', stop: [text] })],
  (text) => ['/v1/completions', JSON.stringify({ prompt: 'a', max_tokens: 1, grammar: `root ::= ${text}` })],
  (text) => ['/v1/completions', formatted({ pattern: `^((${text.slice(0, 1000)})+)+$` })],
  (text) => ['/v1/completions', formatted({ enum: text.match(/.{1,100}/gsu)?.slice(0, 20_000) })],
  (text) => ['/v1/completions', formatted(nested(text.length / 20))],
];

function formatted(schema: object): string {
  const format = { type: 'json_schema', json_schema: { name: 'a', schema } };
  return JSON.stringify({ prompt: 'a', max_tokens: 1, response_format: format });
}

/** Lists within lists. */
function nested(depth: number): object {
  let schema = {};
  for (let i = Math.min(depth, 2000); i > 0; i--) schema = { type: 'array', items: schema };
  return schema;
}

/** Sends what takes long over many connections. @param lengths of texts, in turn @param ends whether it is over @returns answers by their status */
export async function besiege(
  url: string,
  connections: number,
  lengths: readonly number[],
  ends: (answers: number) => boolean,
): Promise<ReadonlyMap<number, number>> {
  const statuses = new Map<number, number>();
  let turn = 0;
  let answers = 0;
  const attack = async (): Promise<void> => {
    while (!ends(answers)) {
      const n = turn++;
      const text = TEXTS[n % TEXTS.length](lengths[n % lengths.length]);
      const [path, body] = BODIES[Math.floor(n / TEXTS.length) % BODIES.length](text);
      const status = await ask(url + path, body);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      answers++;
    }
  };
  await Promise.all(Array.from({ length: connections }, attack));
  return statuses;
}

/** Asks how a server is, again and again. @param ends whether it is over @returns milliseconds of each answer */
export async function watchHealth(url: string, ends: () => boolean): Promise<readonly number[]> {
  const times: number[] = [];
  while (!ends()) {
    const begin = performance.now();
    const status = await ask(`${url}/health`, null);
    times.push(performance.now() - begin);
    if (status !== 200) throw new Error(`/health answered ${status}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return times;
}

/** Asks over a connection of its own. @param body null: none @returns the status; 0: the connection was cut while the body was sent */
function ask(url: string, body: string | null): Promise<number> {
  return new Promise((resolve) => {
    const headers = body === null ? {} : { 'content-type': 'application/json' };
    const asked = request(url, { method: body === null ? 'GET' : 'POST', headers, agent: false });
    asked.on('response', (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
      response.on('error', () => resolve(0));
    });
    asked.on('error', () => resolve(0));
    asked.end(body ?? undefined);
  });
}
