// The example of a pipeline streams words through three stages, and says the same in three
// processes over Redis.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { here, overRedis, tell } from '../../examples/pipeline.js';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { RedisServer, whyNoRedis } from '../support/redis/redis-server.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TEXT = 'the cat sat on the mat and the dog sat on the cat';

/** The text of each stage, and the order in which the stages first sent output. */
async function told(options: Parameters<typeof tell>[0]) {
  const texts: Record<string, string> = {};
  const pieces: string[] = [];
  await tell(options, TEXT, (stage, piece) => {
    texts[stage] = (texts[stage] ?? '') + piece;
    pieces.push(stage);
  });
  return { texts, pieces };
}

it('the example streams words through three stages, each while the one before is still at work', async () => {
  const { texts, pieces } = await told(here());
  expect(Object.keys(texts)).toEqual(['writer', 'speaker', 'singer']);
  const words = new Set(TEXT.split(' '));
  for (const text of Object.values(texts)) {
    const said = text.trim().split(/\s+/);
    expect(said.length).toBeGreaterThan(3);
    for (const word of said) expect(words).toContain(word);
  }
  expect(pieces.indexOf('singer')).toBeLessThan(pieces.lastIndexOf('writer'));
});

it.skipIf(whyNoRedis !== null)('in three processes over Redis it says the same', async () => {
  const server = await RedisServer.start();
  const children = ['speaker', 'singer'].map((name) => serve(name, server.url));
  const { texts } = await told(await overRedis(server.url));
  expect(texts).toEqual((await told(here())).texts);
  // A stage leaves when it is told to, and its process ends by itself.
  for (const child of children) {
    child.kill('SIGTERM');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
  }
});

/** Starts a process of the example, as its first lines say. */
function serve(name: string, url: string): ChildProcess {
  const args = [...scriptArguments(import.meta.url, '../../examples/pipeline'), 'serve', name, url];
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}
