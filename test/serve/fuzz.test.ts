// 10,000 bodies, right and wrong.
import { describe, expect, it } from 'vitest';
import { Random } from '../support/engine-bench.js';
import { share } from '../support/share.js';
import { isEmpty, MODEL, serve } from './support/served.js';

const ROUNDS = share(1000, 10_000);

/** Values that a field may have, right and wrong ones. */
const VALUES: readonly unknown[] = [
  ...[
    null,
    true,
    false,
    0,
    -0,
    1,
    2,
    3,
    -1,
    0.5,
    1e308,
    -1e308,
    2 ** 31,
    2 ** 53,
    1e-320,
    '',
    '7',
    'a',
    'one two one',
  ],
  ...[
    '\ud800',
    '\u0000',
    'é'.repeat(300),
    '__proto__',
    [],
    [[]],
    {},
    [null],
    [1],
    [1, 2, 3],
    ['a', 'b'],
    [-1],
    [1e9],
  ],
  ...[
    [[1, 2], [3]],
    [[1], 'a'],
    { a: 1 },
    { type: 'text' },
    { include_usage: true },
    { include_usage: 1 },
    MODEL,
  ],
  ...[
    [{ role: 'user', content: 'hi' }],
    [{ role: 'user' }],
    [{ role: 5 }],
    [{ role: 'user', content: [{ type: 'text', text: 'x' }] }],
  ],
];

const NAMES = [
  ...[
    'model',
    'prompt',
    'messages',
    'stream',
    'stream_options',
    'n',
    'max_tokens',
    'max_completion_tokens',
    'min_tokens',
  ],
  ...[
    'stop',
    'stop_token_ids',
    'include_stop_str_in_output',
    'ignore_eos',
    'priority',
    'cache_salt',
    'echo',
    'user',
  ],
  ...[
    'temperature',
    'top_p',
    'top_k',
    'min_p',
    'seed',
    'frequency_penalty',
    'presence_penalty',
    'repetition_penalty',
  ],
  ...[
    'logprobs',
    'top_logprobs',
    'best_of',
    'logit_bias',
    'suffix',
    'tools',
    'tool_choice',
    'response_format',
    'metadata',
  ],
  ...[
    'tokens',
    'add_special_tokens',
    'return_token_strs',
    'ids',
    'mode',
    'nonsense',
    '__proto__',
    'constructor',
  ],
];
const PATHS = ['/v1/completions', '/v1/chat/completions', '/tokenize', '/detokenize', '/abort_requests'];

function bodyOf(random: Random): string {
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)];
  const fields = new Map<string, unknown>();
  // Most bodies are almost right, so that they come past the first check.
  if (random.below(4) > 0) fields.set('prompt', 'one two one').set('max_tokens', 1 + random.below(4));
  if (random.below(4) === 0) fields.set('messages', [{ role: 'user', content: 'hi' }]).delete('prompt');
  for (let left = random.below(6) - 2; left > 0; left--) fields.set(pick(NAMES), pick(VALUES));
  const text = `{${[...fields].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}`;
  if (random.below(12) > 0) return text;
  // Bytes that are lost, doubled or exchanged.
  const at = random.below(text.length);
  return text.slice(0, at) + pick(['', '"', '{', '\\', text.slice(0, at)]) + text.slice(at + random.below(3));
}

describe('whatever is sent', () => {
  it(`is answered, and never with a failure of the server: ${ROUNDS} bodies`, async () => {
    const { app, engine } = await serve();
    const random = new Random(11);
    const statuses = new Map<number, number>();
    for (let round = 0; round < ROUNDS; round += 50) {
      const asked = Array.from({ length: 50 }, async () => {
        const payload = bodyOf(random);
        const url = PATHS[Math.min(random.below(8), PATHS.length - 1) % PATHS.length];
        const { statusCode, body } = await app.inject({
          method: 'POST',
          url,
          payload,
          headers: { 'content-type': 'application/json' },
        });
        statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1);
        if (statusCode >= 500) throw new Error(`${statusCode} for ${url} ${payload}: ${body}`);
        if (statusCode >= 400) {
          const { error } = JSON.parse(body) as { error: { message: string } };
          expect(error.message.length).toBeGreaterThan(0);
        }
      });
      await Promise.all(asked);
    }
    // The fuzzer has tried both.
    expect(statuses.get(200)).toBeGreaterThan(ROUNDS / 25);
    expect(statuses.get(400)).toBeGreaterThan(ROUNDS / 25);
    expect(isEmpty(engine)).toBe(true);
    engine.verify();
  });
});
