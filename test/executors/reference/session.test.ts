// Sessions continue from the tokens that were computed.
import { describe, expect, it } from 'vitest';
import { seeded } from '../../support/core-bench.js';
import { ReferenceDriver, unpagedText, wordy } from './support.js';

/** One session: its chunks, the first of which is the prompt of `add`, and how many tokens each answer has. */
interface Dialogue {
  id: string;
  handle: number;
  chunks: { prompt: Int32Array; maxTokens: number }[];
  /** Chunks that were given to the scheduler. */
  given: number;
}

/** All answers. Each goes on from everything before but the last token of the answer before, which is never computed. */
function expectedAnswers({ chunks }: Dialogue, seed: number): number[] {
  let said: number[] = [];
  return chunks.flatMap(({ prompt, maxTokens }, i) => {
    said = [...(i === 0 ? [] : said.slice(0, -1)), ...prompt];
    const answer = unpagedText(Int32Array.from(said), maxTokens, { seed });
    said = [...said, ...answer];
    return answer;
  });
}

describe('sessions over a reference executor', () => {
  for (let seed = 0; seed < 45; seed++) {
    it(`seed ${seed}: every answer is that of an unpaged computation of all that was said`, async () => {
      const next = seeded(seed);
      using driver = new ReferenceDriver(
        {
          pipelineDepth: (1 + (seed % 3)) as 1 | 2 | 3,
          numBlocks: 26 + next(20),
          maxNumSeqs: 4,
          maxNumBatchedTokens: 12 + next(30),
          numSpeculativeTokens: next(2) * 2,
          speculativeMethod: (['ngram', 'eagle'] as const)[next(2)],
        },
        { seed, draftErrorRate: 0.4 },
      );
      const dialogues = Array.from({ length: 5 }, (_, i): Dialogue => {
        const chunks = Array.from({ length: 1 + next(4) }, () => ({
          prompt: wordy(1 + next(12), next(3)),
          maxTokens: 1 + next(7),
        }));
        const handle = driver.add({ id: `s${i}`, ...chunks[0], resumable: true });
        return { id: `s${i}`, handle, chunks, given: 1 };
      });
      const open = () => dialogues.some(({ given, chunks }) => given <= chunks.length);
      for (let i = 0; open() || driver.scheduler.hasWork(); i++) {
        if (i === 2000) throw new Error('the sessions do not end');
        const dialogue = dialogues[next(dialogues.length)];
        if (next(3) === 0 && dialogue.given <= dialogue.chunks.length) {
          if (dialogue.given === dialogue.chunks.length) driver.scheduler.endSession(dialogue.id);
          else driver.scheduler.addChunk(dialogue.id, dialogue.chunks[dialogue.given]);
          dialogue.given++;
        }
        await driver.step();
      }
      for (const dialogue of dialogues) {
        expect(driver.texts.get(dialogue.handle)).toEqual(expectedAnswers(dialogue, seed));
      }
      expect(driver.executor.faults).toEqual([]);
    });
  }
});
