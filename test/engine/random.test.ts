// Random lives: every text is right, every client learns the end of its request once, nothing is
// left.
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { OutputRequest } from '../../src/engine/outputs/engine-outputs.js';
import { leftovers, tokensOf } from '../support/engine-bench.js';
import { share } from '../support/share.js';
import { endOf } from './ends.js';
import type { Heard } from './outputs/heard.js';
import { EngineLife } from './random-life.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(10, 60));
const EVENTS = 500;

/** The outputs of the requests that reached the scheduler. */
function byHandle(byRequest: ReadonlyMap<OutputRequest, Heard>): Map<number, Heard> {
  return new Map([...byRequest].map(([{ handle }, heard]) => [handle, heard]));
}

describe('random lives', () => {
  const seen = new Set<string>();

  for (let seed = 0; seed < SEEDS; seed++) {
    it(`seed ${seed}: every text is right, every client is told once how it ended, nothing is left`, async () => {
      const life = new EngineLife(seed);
      await life.run(EVENTS);
      const { engine, clients, model, listeners } = life;
      await listeners[1].readRest();
      const heard = listeners.map(({ byRequest }) => byHandle(byRequest));
      expect(leftovers(engine)).toEqual([]);
      const ends: Record<string, number> = {};
      for (const client of clients) {
        const end = await endOf(client);
        ends[end] = (ends[end] ?? 0) + 1;
        seen.add(end);
        if (client.controller !== null)
          expect(getEventListeners(client.controller.signal, 'abort')).toEqual([]);
        expect(['stop', 'length', 'abort', 'aborted with a reason', 'ERR_BLOCKSTEP_EXECUTOR']).toContain(end);
        if (client.stream.handle < 0) continue;
        const settled = await client.result;
        const read = tokensOf(client.read);
        const right = model.text(client.stream.handle, client.stream.numOutputTokens);
        expect(read).toEqual(right.slice(0, read.length));
        if (settled.status === 'fulfilled') expect([...settled.value.tokens]).toEqual(right);
        for (const all of heard) {
          const {
            tokens,
            ends: [last, ...others],
          } = all.get(client.stream.handle) as Heard;
          expect(tokens).toEqual(right);
          expect(others).toEqual([]);
          // A reader that has left aborts its request, and was not notified of an end.
          expect(last.error ?? last.finishReason).toBe(
            settled.status === 'rejected' ? settled.reason : settled.value.finishReason,
          );
        }
        if (end === 'length') expect(right.length).toBeGreaterThan(0);
        expect(client.read.filter(({ finishReason }) => finishReason !== null).length).toBeLessThanOrEqual(1);
        expect(right.length).toBeLessThanOrEqual(client.input.maxTokens);
      }
      const { scheduler, failedRequests } = engine.stats();
      expect(ends['ERR_BLOCKSTEP_EXECUTOR'] ?? 0).toBeLessThanOrEqual(failedRequests);
      // A client that aborts before it learns the end of its request sees it as aborted.
      expect(scheduler.finished.length).toBeGreaterThanOrEqual(ends['length'] ?? 0);
      expect(life.failing > 0 || failedRequests === 0).toBe(true);
      engine.dispose();
    });
  }

  it('had every kind of end', () => {
    expect([...seen].sort()).toEqual([
      'ERR_BLOCKSTEP_EXECUTOR',
      'abort',
      'aborted with a reason',
      'length',
      'stop',
    ]);
  });
});
