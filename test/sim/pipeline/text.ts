// The text of a request in every stage, computed by hand.
import { unpagedText } from '../../support/unpaged-text.js';
import type { StageSetup } from './setup.js';

/** The answers of one stage to one request: tokens of each, in order. */
export type Answers = number[][];

/**
 * The texts of a request in every stage: computed by hand from its prompt and chunks, with no
 * engine, no page and no clock.
 * @param inputs the prompt, and the chunks of a session behind it
 * @param maxTokens of each answer, by stage
 * @returns by stage; and the longest text of a stage, in tokens
 */
export function textsOf(
  stages: readonly StageSetup[],
  inputs: readonly Int32Array[],
  maxTokens: readonly number[],
): { readonly answers: Answers[]; readonly longest: number } {
  let given: readonly (readonly number[])[] = inputs
    .filter(({ length }) => length > 0)
    .map((each) => [...each]);
  let longest = 0;
  const answers = stages.map((stage, i) => {
    const { said, length } = answersOf(stage, given, maxTokens[i]);
    longest = Math.max(longest, length);
    given = said.flatMap((answer) => piecesOf(answer, stage.chunkTokens));
    return said;
  });
  return { answers, longest };
}

function answersOf(stage: StageSetup, given: readonly (readonly number[])[], maxTokens: number) {
  const { seed } = stage;
  let text: number[] = [];
  let length = 0;
  const said = given.map((chunk): number[] => {
    const isWhole = stage.kind === 'generation';
    // A session goes on without the last token of its last answer, which was never computed.
    text = isWhole ? [...chunk] : [...text.slice(0, -1), ...chunk];
    const answer = unpagedText(Int32Array.from(text), isWhole ? 1 : maxTokens, { seed });
    text = [...text, ...answer];
    length = Math.max(length, text.length);
    return answer;
  });
  return { said, length };
}

function piecesOf(answer: readonly number[], size: number): number[][] {
  const pieces: number[][] = [];
  for (let at = 0; at < answer.length; at += size) pieces.push(answer.slice(at, at + size));
  return pieces;
}
