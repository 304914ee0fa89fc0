// `all-outputs.ts`: all requests over one channel.
import { expect, it } from 'vitest';
import { forward, type News } from '../../examples/all-outputs.js';
import { EngineBench, settled } from '../support/engine-bench.js';

it('hands on every token and every end of all requests, a message for each step', async () => {
  const bench = new EngineBench({}, true);
  const sent: News[][] = [];
  const over = forward(bench.engine, (news) => sent.push(news));
  bench.submit({ id: 'a', maxTokens: 2 });
  bench.submit({ id: 'b', maxTokens: 9 });
  await bench.engine.stepAsync();
  await bench.executor.deliver();
  await bench.engine.stepAsync();
  await settled();
  bench.engine.abort('b', new Error('gone'));
  await bench.finish();
  await bench.engine.shutdown();
  await over;
  const of = (id: string): News[] => sent.flat().filter((news) => news.id === id);
  expect(of('a')).toEqual([
    { id: 'a', tokens: [600] },
    { id: 'a', tokens: [700], end: { reason: 'length' } },
  ]);
  expect(of('b')).toEqual([
    { id: 'b', tokens: [600] },
    { id: 'b', tokens: [], end: { reason: 'abort', error: 'Error: gone' } },
  ]);
  expect(sent.map(({ length }) => length)).toEqual([2, 1, 1]);
});
