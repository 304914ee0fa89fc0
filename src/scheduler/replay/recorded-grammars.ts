import type { Grammar } from '../request/grammar.js';
import type { RecordedAnswers } from './recorded-answers.js';

/**
 * A grammar that gives its recorded answers.
 * @param handleOf the handle of its request, known by the time of the first question
 */
export function recordedGrammar(answers: RecordedAnswers, handleOf: () => number): Grammar {
  const ask = (question: 'ready' | 'acceptTokens' | 'validateTokens'): number => {
    const answer = answers.next(handleOf(), question);
    if (typeof answer !== 'number') return 0;
    if (answer < 0) throw new Error('as recorded');
    return answer;
  };
  return {
    // The answer that a grammar is not ready yet is not recorded.
    ready: () => answers.isNext(handleOf(), 'ready') && ask('ready') === 1,
    acceptTokens: () => ask('acceptTokens') === 1,
    validateTokens: () => ask('validateTokens'),
  };
}
