// Prompts and tokens follow the formulas of the format.
import { describe, expect, it } from 'vitest';
import { fixtureNames, isCut, readFixture } from './fixtures.js';
import { outputToken, Prompts, seedToken } from './tokens.js';
import type { AddEvent, ChunkEvent, Segment } from './trace.js';

const end = { eos_id: 2, stop_id: 3 };

function add(idx: number, prompt: Segment[], eos_at = -1, stop_at = -1): AddEvent {
  return { idx, prompt, eos_at, stop_at } as AddEvent;
}

describe('tokens', () => {
  it('follow the formulas of the format', () => {
    expect(seedToken(0, 0)).toBe(12445);
    expect(seedToken(1000, 2)).toBe(100 + ((7919000 + 209458 + 12345) % 50000));
    const never = { eosAt: -1, stopAt: -1 };
    expect(outputToken(end, 1, 0, never)).toBe(60613);
    expect(outputToken(end, 48, 20, never)).toBe(60000 + (29424 + 620 - 30000));
    expect(outputToken(end, 1, 4, { eosAt: 4, stopAt: 4 })).toBe(2);
    expect(outputToken(end, 1, 4, { eosAt: 5, stopAt: 4 })).toBe(3);
  });

  it('make prompts out of segments', () => {
    const prompts = new Prompts(end);
    expect(Array.from(prompts.spell(add(0, [['x', [9, 8]]], 1)))).toEqual([9, 8]);
    const quoted = prompts.spell(add(1, [['s', 7, 3, 2], ['o', 0, 3]])); // biome-ignore format: one line
    expect(Array.from(quoted)).toEqual([seedToken(7, 3), seedToken(7, 4), 60000, 2, 60062]);
    expect(() => prompts.spell(add(2, [['o', 5, 1]]))).toThrow('quotes request 5');
  });

  it.each(fixtureNames)('are those that the requests of %s got', (name) => {
    const trace = readFixture(name);
    // Of each request its chunks, and to each chunk the answer; a plain request is one chunk.
    const chunks = new Map<string, (AddEvent | ChunkEvent)[]>();
    const answers = new Map<string, number[][]>();
    for (const { events, upd } of trace.steps) {
      for (const event of events) {
        if (event.t === 'add') answers.set(event.id, [[]]);
        if (event.t === 'add') chunks.set(event.id, [event]);
        if (event.t === 'chunk') chunks.get(event.id)?.push(event);
      }
      for (const [id, tokens, reason] of upd?.out ?? []) {
        answers
          .get(id)
          ?.at(-1)
          ?.push(...tokens);
        if (reason !== null) answers.get(id)?.push([]);
      }
    }
    const given = [...answers].flatMap(([id, all]) => all.map((tokens, i) => ({ id, tokens, i })));
    const spoken = given.filter(({ tokens }) => tokens.length > 0);
    expect(spoken.length).toBeGreaterThan(isCut(name) ? 0 : 10);
    for (const { id, tokens, i } of spoken) {
      const { idx, eos_at, stop_at } = (chunks.get(id) as AddEvent[])[i];
      const ending = { eosAt: eos_at, stopAt: stop_at };
      expect(tokens).toEqual(tokens.map((_, k) => outputToken(trace, idx, k, ending)));
    }
  });
});
