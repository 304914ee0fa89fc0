// OpenAI's API beside the routes of an existing server.
import { expect, it } from 'vitest';
import { server } from '../../examples/embed.js';

it('OpenAI’s API stands beside what a server does already', async () => {
  const app = await server();
  expect((await app.inject('/')).body).toBe('hello');
  const payload = { prompt: 'one two one', max_tokens: 2 };
  const response = await app.inject({ method: 'POST', url: '/llm/v1/completions', payload });
  expect(response.json()).toMatchObject({ model: 'my-model', choices: [{ text: ' two one' }] });
  expect((await app.inject('/llm/health')).statusCode).toBe(200);
  // Errors of others keep their own form.
  expect((await app.inject('/nothing')).json()).toMatchObject({ statusCode: 404 });
  expect((await app.inject('/llm/nothing')).json()).toMatchObject({ error: { code: 'not_found' } });
  await app.close();
});
