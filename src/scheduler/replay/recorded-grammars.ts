import type { Grammar } from '../request/grammar.js';
import type { RecordedAnswers } from './recorded-answers.js';

/** A grammar that answers what was recorded, of a request whose handle is known when it is asked. */
export function recordedGrammar(answers: RecordedAnswers, handleOf: () => number): Grammar {
  const ask = (question: 'ready' | 'acceptTokens' | 'validateTokens'): number => {
    const answer = answers.take(handleOf(), question);
    if (typeof answer !== 'number') return 0;
    if (answer < 0) throw new Error('as recorded');
    return answer;
  };
  return {
    // That one is not ready yet is not recorded.
    ready: () => answers.isNext(handleOf(), 'ready') && ask('ready') === 1,
    acceptTokens: () => ask('acceptTokens') === 1,
    validateTokens: () => ask('validateTokens'),
  };
}
