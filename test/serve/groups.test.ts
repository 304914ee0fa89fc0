import { describe, expect, it } from 'vitest';
import type { KvGroupOptions } from '../../src/index.js';
import type { Figures, RequestFacts } from '../../src/serve/page/answers.js';
import { PATIENCE_MS, until } from '../support/waiting.js';
import { answerOf, isEmpty, serve } from './support/served.js';

const GROUPS: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 40 }];
const LONG = { prompt: 'one two one two one '.repeat(20), max_tokens: 1500, ignore_eos: true };

/** A server with two groups, and a request that has run past its window. */
async function busy(engine: object = {}) {
  const all = await serve({ engine: { kvGroups: GROUPS, ...engine }, latencyMs: 1, serve: { drainMs: 0 } });
  const asked = all.post('/v1/completions', LONG).then((response) => response.text());
  asked.catch(() => {});
  await until(() => all.engine.numRunning === 1 && all.engine.stats().steps > 40, 'forty steps');
  const [{ id }] = all.engine.scheduler.inspect().requests;
  const json = async <T>(path: string): Promise<T> => (await (await fetch(all.url + path)).json()) as T;
  /** Pauses the engine, so that answers are of one moment. */
  const stop = async (): Promise<void> => {
    all.engine.pause('all');
    await until(() => all.engine.stats().stepsInFlight === 0, 'no step in flight');
  };
  return { ...all, id, asked, json, stop };
}

describe('a server with KV cache groups', () => {
  it('answers over HTTP, and all blocks come back', async () => {
    const { post, engine } = await serve({ engine: { kvGroups: GROUPS } });
    const { choices, usage } = await answerOf(post('/v1/completions', { ...LONG, max_tokens: 200, n: 2 }));
    expect(usage.completion_tokens).toBe(400);
    expect(choices.every(({ text }) => text.length > 200)).toBe(true);
    await until(() => isEmpty(engine), 'an empty engine');
    expect(engine.stats().scheduler.kvCacheUsage).toBe(0);
  });

  it('says in metrics, figures and requests what each group has', async () => {
    const { url, json, id, engine, stop } = await busy();
    await stop();
    const { groups } = engine.stats().scheduler;
    const [full, sliding] = groups;
    expect(full.usedBlocks).toBeGreaterThan(5);
    expect(sliding.usedBlocks).toBeLessThan(5);
    expect(sliding.droppedBlocks).toBe(sliding.nullPlaces);
    expect(sliding.nullPlaces + sliding.usedBlocks).toBe(full.usedBlocks);
    const text = await (await fetch(`${url}/metrics`)).text();
    const value = (name: string, group: number, kind: string): number => {
      const labels = `model_name="test-model",engine="0",group="${group}",kind="${kind}"`;
      return Number(text.split(`blockstep:kv_group_${name}{${labels}} `)[1]?.split('\n')[0]);
    };
    [
      ['full', full],
      ['sliding 40', sliding],
    ].forEach(([kind, group], g) => {
      const { usedBlocks, cachedBlocks, nullPlaces, droppedBlocks } = group as typeof full;
      expect(value('used_blocks', g, kind as string)).toBe(usedBlocks);
      expect(value('cached_blocks', g, kind as string)).toBe(cachedBlocks);
      expect(value('null_places', g, kind as string)).toBe(nullPlaces);
      expect(value('dropped_blocks_total', g, kind as string)).toBe(droppedBlocks);
    });
    const present = async () => (await json<Figures>('/figures')).present?.groups[0].usedBlocks;
    await expect.poll(present, { timeout: PATIENCE_MS }).toBe(full.usedBlocks);
    expect((await json<Figures>('/figures')).present?.groups).toEqual(groups);
    const facts = await json<RequestFacts>(`/requests/${id}`);
    expect(facts.groups).toEqual([
      { name: 'full', blockSize: 16, places: full.usedBlocks, blocks: full.usedBlocks },
      { name: 'sliding 40', blockSize: 16, places: full.usedBlocks, blocks: sliding.usedBlocks },
    ]);
    expect(facts.explain).toContain(
      `; holds blocks (full: ${full.usedBlocks}, sliding 40: ${sliding.usedBlocks} in ${full.usedBlocks} places)`,
    );
    expect(facts.blocks).toHaveLength(full.usedBlocks + sliding.usedBlocks);
  });

  it('has the group of each block in the map', async () => {
    const { url, engine, stop } = await busy();
    await stop();
    const { groups } = engine.stats().scheduler;
    const count = async (byte: number): Promise<number> =>
      new Uint8Array(await (await fetch(`${url}/blocks`)).arrayBuffer()).filter((each) => each === byte)
        .length;
    await expect.poll(() => count(2 + 16), { timeout: PATIENCE_MS }).toBe(groups[0].usedBlocks);
    expect(await count(2 + 32)).toBe(groups[1].usedBlocks);
    // Blocks that the window has left keep their hashes.
    expect(await count(1 + 32)).toBeGreaterThan(5);
    expect(await count(5)).toBe(1);
    const free = engine.scheduler.core.freeBlocks - (await count(1 + 16)) - (await count(1 + 32));
    expect(await count(0)).toBe(free);
  });

  it('one group is the group 0, and the map has states alone', async () => {
    const { url, json, id, engine, stop } = await busy({ kvGroups: undefined });
    await stop();
    const used = engine.scheduler.inspect().blocksOf(engine.scheduler.get(id)!).length;
    const text = await (await fetch(`${url}/metrics`)).text();
    expect(text).toContain(
      `blockstep:kv_group_used_blocks{model_name="test-model",engine="0",group="0",kind="full"} ${used}\n`,
    );
    expect(text).not.toContain('group="1"');
    const facts = await json<RequestFacts>(`/requests/${id}`);
    expect(facts.groups).toEqual([{ name: 'full', blockSize: 16, places: used, blocks: used }]);
    expect(facts.explain).not.toContain('holds blocks');
    const map = new Uint8Array(await (await fetch(`${url}/blocks`)).arrayBuffer());
    expect(Math.max(...map)).toBe(5);
  });
});
