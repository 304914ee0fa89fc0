/**
 * Batch work: continues every line of a text, and says how far it is. The lines may be those of a file that is read as the
 * engine gets on: `continueLines(engine, createInterface(createReadStream(path)), 24, console.error)`.
 */
import type { Engine } from 'blockstep';
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
