// The loop that gives each choice its outputs of the engine.
import { describe, expect, it } from 'vitest';
import { BlockstepError, type Engine, type EngineOutputs } from '../../src/index.js';
import type { Choice } from '../../src/serve/reply/choice.js';
import { Choices } from '../../src/serve/reply/choices.js';
import { settled } from '../support/engine-bench.js';
import { withMistakes } from '../support/waiting.js';

type Item = readonly (readonly [id: string, ends: boolean])[];

/** An engine that returns these items, then breaks off with an error, if it is given one. */
function engineOf(items: readonly Item[], error?: unknown): Engine {
  async function* outputs() {
    for (const rows of items) {
      await settled();
      yield {
        length: rows.length,
        requests: rows.map(([id]) => ({ id, handle: 1 })),
        ends: rows.map(([, ends]) => (ends ? { finishReason: 'stop', continues: false } : null)),
      } as unknown as EngineOutputs;
    }
    if (error !== undefined) throw error;
  }
  return { outputs } as unknown as Engine;
}

function choiceOf(id: string, receive: (row: number) => void): { choice: Choice; failures: unknown[] } {
  const failures: unknown[] = [];
  const choice = {
    stream: { id },
    receive: (_outputs: EngineOutputs, row: number) => receive(row),
    fail: (error: unknown) => failures.push(error),
  };
  return { choice: choice as unknown as Choice, failures };
}

// Pinned by: choices.ts.
describe('the choices of a server', () => {
  it('get their rows until their requests end, and no others', async () => {
    const items: Item[] = [
      [
        ['a', false],
        ['other', false],
        ['b', false],
      ],
      [
        ['b', true],
        ['a', false],
      ],
      [['b', false]],
    ];
    const choices = new Choices(engineOf(items));
    const taken: string[] = [];
    choices.read();
    for (const id of ['a', 'b']) choices.add(choiceOf(id, (row) => taken.push(`${id}${row}`)).choice);
    for (let i = 0; i < 9; i++) await settled();
    expect(taken).toEqual(['a0', 'b2', 'b0', 'a1']);
  });

  it('fail if the outputs break off, and are read anew for the next request', async () => {
    const error = new BlockstepError('ERR_BLOCKSTEP_LIMIT', 'too slow');
    const choices = new Choices(engineOf([[['a', true]], [['c', false]]], error));
    choices.read();
    choices.read();
    const [ended, left] = ['a', 'b'].map((id) => choiceOf(id, () => {}));
    for (const { choice } of [ended, left]) choices.add(choice);
    for (let i = 0; i < 9; i++) await settled();
    expect([ended.failures, left.failures]).toEqual([[], [error]]);
    const taken: number[] = [];
    choices.read();
    choices.add(choiceOf('c', (row) => taken.push(row)).choice);
    for (let i = 0; i < 9; i++) await settled();
    expect(taken).toEqual([0]);
  });

  it('leave the error of a server that has ended to submit', () => {
    const outputs = () => {
      throw new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the engine was disposed');
    };
    expect(() => new Choices({ outputs } as unknown as Engine).read()).not.toThrow();
  });

  it('lose nothing by a mistake of another one', async () => {
    await withMistakes(async (mistakes) => {
      const wrong = new Error('mistake');
      const choices = new Choices(
        engineOf([
          [
            ['a', false],
            ['b', false],
          ],
        ]),
      );
      const taken: number[] = [];
      choices.read();
      const bad = choiceOf('a', () => {
        throw wrong;
      });
      for (const { choice } of [bad, choiceOf('b', (row) => taken.push(row))]) choices.add(choice);
      await settled();
      await new Promise((resolve) => setImmediate(resolve));
      expect([taken, mistakes]).toEqual([[1], [wrong]]);
    });
  });
});
