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
];

/** What a siege saw. */
export interface Siege {
  /** Milliseconds of each answer of `/health`. */
  readonly health: readonly number[];
  /** Answers by their status. */
  readonly statuses: ReadonlyMap<number, number>;
}

/** Sends what takes long over many connections, and asks meanwhile how the server is. @param lengths of texts, in turn @param ends whether it is over @param waits for the answers that have not come then */
export async function besiege(
  url: string,
  connections: number,
  lengths: readonly number[],
  ends: (answers: number) => boolean,
  waits = true,
): Promise<Siege> {
  const health: number[] = [];
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
  const watch = async (): Promise<void> => {
    while (!ends(answers)) {
      const begin = performance.now();
      const status = await ask(`${url}/health`, null);
      health.push(performance.now() - begin);
      if (status !== 200) throw new Error(`/health answered ${status}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const attacks = Promise.all(Array.from({ length: connections }, attack));
  await watch();
  if (waits) await attacks;
  return { health, statuses };
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
