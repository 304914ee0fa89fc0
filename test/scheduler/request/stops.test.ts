// `stop` and `length`: end-of-text tokens, stop tokens, `minTokens`, drafts.
import { describe, expect, it } from 'vitest';
import type { RequestInput } from '../../../src/scheduler/request/request.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';

const EOS = 2;
const DEPTHS = [1, 2, 3] as const;

interface Ending {
  text: number[];
  reason: string | undefined;
  stopReason: number | null;
  finishReason: string | null;
}

/** Runs a request whose output is `says`, then 9 for ever. */
function ending(
  says: readonly number[],
  input: Partial<RequestInput>,
  options: ConstructorParameters<typeof Driver>[0] = {},
): Ending {
  const tokenAt = ({ prompt: given }: RequestInput, position: number) => says[position - given.length] ?? 9;
  const driver = new Driver(options, { tokenAt });
  const handle = driver.add({ id: 'a', prompt: prompt(5), maxTokens: 8, ...input });
  const request = driver.request(handle);
  driver.run();
  expect(driver.ends.get(handle)).toHaveLength(1);
  expect(leftovers(driver.scheduler)).toEqual([]);
  expect(request.numOutputTokens).toBe(driver.text(handle).length);
  const { stopReason, finishReason } = request;
  return { text: driver.text(handle), reason: driver.ends.get(handle)?.[0], stopReason, finishReason };
}

for (const pipelineDepth of DEPTHS) {
  describe(`depth ${pipelineDepth}: a request ends`, () => {
    const options = { pipelineDepth };

    it('with stop at the end-of-text token, which it delivers', () => {
      expect(ending([7, 7, EOS], { eosTokenId: EOS }, options)).toEqual({
        text: [7, 7, EOS],
        reason: 'stop',
        stopReason: null,
        finishReason: 'stop',
      });
    });

    it('not at that token with ignoreEos, nor without eosTokenId', () => {
      expect(ending([7, EOS], { eosTokenId: EOS, ignoreEos: true }, options).text).toHaveLength(8);
      expect(ending([7, EOS], {}, options).text).toHaveLength(8);
    });

    it('with stop at a stop token, which becomes stopReason', () => {
      expect(ending([7, 8, 5], { stopTokenIds: [5, 8] }, options)).toEqual({
        text: [7, 8],
        reason: 'stop',
        stopReason: 8,
        finishReason: 'stop',
      });
    });

    it('at a stop token that is also end of text as at end of text; with ignoreEos as at a stop token', () => {
      const input = { eosTokenId: EOS, stopTokenIds: [EOS] };
      expect(ending([EOS], input, options)).toMatchObject({ reason: 'stop', stopReason: null });
      expect(ending([EOS], { ...input, ignoreEos: true }, options)).toMatchObject({ stopReason: EOS });
    });

    it('with length after maxTokens', () => {
      expect(ending([], { maxTokens: 3 }, options)).toEqual({
        text: [9, 9, 9],
        reason: 'length',
        stopReason: null,
        finishReason: 'length',
      });
      expect(ending([], { maxTokens: 1 }, options).text).toEqual([9]);
    });

    it('with length at maxModelLen', () => {
      const { text, reason } = ending([], { maxTokens: 50 }, { ...options, maxModelLen: 9 });
      expect([text.length, reason]).toEqual([4, 'length']);
    });

    it('with stop when its last possible token is a stop', () => {
      expect(ending([7, 7, EOS], { maxTokens: 3, eosTokenId: EOS }, options).reason).toBe('stop');
      expect(ending([7, 7, 5], { maxTokens: 3, stopTokenIds: [5] }, options).stopReason).toBe(5);
    });

    it('at no token before minTokens, and at the first that may end it from there on', () => {
      const input = { eosTokenId: EOS, stopTokenIds: [5], minTokens: 3 };
      expect(ending([EOS, 5, 7, EOS], input, options).text).toEqual([EOS, 5, 7, EOS]);
      expect(ending([EOS, 5, EOS], input, options).text).toEqual([EOS, 5, EOS]);
      expect(ending([EOS, 5, 5], input, options)).toMatchObject({ text: [EOS, 5, 5], stopReason: 5 });
    });

    it('with length when minTokens is maxTokens', () => {
      const input = { maxTokens: 4, minTokens: 4, eosTokenId: EOS };
      expect(ending([EOS, EOS, EOS, EOS], input, options)).toMatchObject({ reason: 'stop' });
      expect(ending([EOS, EOS, EOS, 7], input, options)).toMatchObject({ reason: 'length' });
    });
  });

  describe(`depth ${pipelineDepth}: with speculative tokens`, () => {
    const options = { pipelineDepth, numSpeculativeTokens: 3 };

    it('the text is that without them', () => {
      const driver = new Driver(options);
      const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 40 });
      driver.run();
      expect(driver.text(handle)).toEqual(driver.model.text(handle, 40));
      const { specDrafts, specDraftTokens, specAcceptedTokens } = driver.scheduler.stats();
      expect(specDraftTokens).toBeGreaterThan(specDrafts);
      expect(specAcceptedTokens).toBeGreaterThan(0);
      expect(specAcceptedTokens).toBeLessThan(specDraftTokens);
    });

    for (let at = 0; at < 12; at++) {
      it(`a stop as token ${at + 1} ends the text there, whatever was accepted behind it`, () => {
        const driver = new Driver(options);
        const probe = driver.add({ id: 'probe', prompt: prompt(9) });
        const text = driver.model.text(probe, at + 1);
        driver.abort('probe');
        const stopTokenIds = text.slice(at);
        const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 40, stopTokenIds });
        const request = driver.request(handle);
        driver.run();
        expect(driver.text(handle)).toEqual(text);
        expect(driver.ends.get(handle)).toEqual(['stop']);
        expect(request.numTokens).toBe(9 + text.length);
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }

    it('maxTokens and maxModelLen cut accepted tokens', () => {
      for (const maxTokens of [1, 2, 3, 4, 5, 6]) {
        expect(ending([], { maxTokens }, options).text).toHaveLength(maxTokens);
      }
      expect(ending([], { maxTokens: 50 }, { ...options, maxModelLen: 12 }).text).toHaveLength(7);
    });
  });
}
