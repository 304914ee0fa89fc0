/**
 * Batch work: continues every line of a text, and says how far it is. The lines may be those of a file that is read as the
 * engine gets on: `continueLines(engine, createInterface(createReadStream(path)), 24, console.error)`.
 *
 *     npx tsx examples/batch.ts
 *
 * continues three lines, one of which is empty.
 */
import { pathToFileURL } from 'node:url';
import { Engine, ReferenceExecutor } from 'blockstep';
import { decode, encode } from 'gpt-tokenizer';

export async function continueLines(
  engine: Engine,
  lines: Iterable<string> | AsyncIterable<string>,
  maxTokens: number,
  report: (text: string) => void,
): Promise<string[]> {
  async function* prompts() {
    for await (const line of lines) yield Int32Array.from(encode(line));
  }
  const results = await engine.generate(prompts(), {
    maxTokens,
    onProgress({ done, total, tokens }) {
      if (done % 1000 === 0 || done === total) report(`${done} of ${total ?? 'some'}: ${tokens} tokens`);
    },
  });
  // A line that failed, for instance an empty one, loses no other.
  return results.map((result) =>
    result.finishReason === 'error' ? `(${String(result.error)})` : decode([...result.tokens]),
  );
}

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const options = { numBlocks: 256, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };
  const engine = new Engine({ ...options, executor: new ReferenceExecutor(options) });
  engine.run();
  const rose = 'A rose is a rose is a rose. The rain in Spain stays mainly in the plain. A rose is';
  const lines = [rose, '', `${rose} a rose. The rain`];
  for (const text of await continueLines(engine, lines, 6, print)) print(text);
  await engine.shutdown();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
