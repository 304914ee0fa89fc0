import { describe, expect, it } from 'vitest';
import { ScriptedConnector } from '../transfer/scripted-connector.js';
import { EngineBench, prompt, rejection, settled } from './support.js';

/** A log sink whose disk is full from a record on. */
class FullSink {
  isFull = false;

  write(): void {
    if (this.isFull) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  }
}

/** Everything that a client or an operator may call outside of a step. */
const CALLS: [string, (bench: EngineBench) => unknown][] = [
  ['submit', (bench) => bench.submit({ id: 'new', prompt: prompt(6, 3) })],
  ['pause', (bench) => bench.engine.pause('new')],
  ['resume', (bench) => bench.engine.resume()],
  ['resetPrefixCache', (bench) => bench.engine.resetPrefixCache()],
  ['hold', (bench) => bench.engine.hold(2 ** 21, 'store', 'job')],
  ['complete', (bench) => bench.engine.complete(2 ** 21, 'store', 'job')],
  ['fenceTransfers', (bench) => bench.engine.fenceTransfers()],
];

// Pinned by: `EngineState.change` and `judge` (engine-state.ts).
describe('a scheduler that breaks outside of a step', () => {
  it.each(CALLS)(
    '%s: the call throws a code, every stream ends with it, and health says why',
    async (_, call) => {
      const log = new FullSink();
      const bench = new EngineBench({ log }, true);
      const running = bench.submit({ id: 'a' });
      const waiting = bench.submit({ id: 'b', prompt: prompt(6, 1), resumable: true });
      bench.engine.step();
      log.isFull = true;
      expect(() => call(bench)).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT' }));
      const health = bench.engine.health();
      expect(health).toMatchObject({ healthy: false, state: 'broken' });
      expect(health.reasons.join()).toContain('no space left on device');
      for (const handle of [running, waiting])
        expect(await rejection(handle.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
      expect(() => bench.submit()).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT' }));
      await settled();
      bench.engine.dispose();
    },
  );

  it('addChunk and endInput of a session break it likewise', async () => {
    for (const act of ['addChunk', 'endInput'] as const) {
      const log = new FullSink();
      const bench = new EngineBench({ log });
      const session = bench.submit({ id: 's', resumable: true, maxTokens: 1 });
      bench.steps();
      log.isFull = true;
      const call = (): unknown =>
        act === 'addChunk' ? session.addChunk({ prompt: prompt(2) }) : session.endInput();
      expect(call).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT' }));
      expect(bench.engine.health().state).toBe('broken');
      expect(await rejection(session.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
    }
  });

  it('a connector that lets go of a pin on its own account breaks it at once, though no call of the engine was made', async () => {
    const log = new FullSink();
    const connector = new ScriptedConnector({}, { protection: 'pin' });
    const bench = new EngineBench({ log, connector }, true);
    const a = bench.submit({ id: 'a' });
    bench.engine.step();
    const { core } = bench.engine.scheduler;
    const block = core.freeQueue().slice(0, 1);
    connector.pins?.pin(block);
    log.isFull = true;
    expect(() => connector.pins?.unpin(block)).toThrow('no space left');
    expect(bench.engine.health()).toMatchObject({ healthy: false, state: 'broken' });
    expect(await rejection(a.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
  });

  it('what is only refused breaks nothing', () => {
    const bench = new EngineBench({ strict: true });
    expect(() => bench.engine.hold(2 ** 40, 'store', 'job')).toThrow(/stale-handle/);
    expect(() => bench.submit({ id: 'x', maxTokens: 0 })).toThrow(/maxTokens/);
    expect(bench.engine.health().healthy).toBe(true);
  });
});

// Pinned by: `scheduledNothing` (health.ts), `hasRunnable` (inspection.ts).
describe('health of an engine that is wedged', () => {
  it('with no block free at all: says so after stallSteps', () => {
    const bench = new EngineBench({ stallSteps: 10 });
    const { core } = bench.engine.scheduler;
    core.native.pin(core.freeQueue());
    bench.submit({ id: 'a' });
    for (let i = 0; i < 10; i++) expect(bench.engine.step().state).toBe('stalled');
    expect(bench.engine.health().reasons.join()).toMatch(
      /nothing was scheduled .* 1 waiting requests and 0 free blocks/,
    );
  });

  it('with a request among the skipped: an adapter that finds no place, since what runs cannot', () => {
    const bench = new EngineBench({
      stallSteps: 10,
      maxLoras: 1,
      numBlocks: 5,
      maxModelLen: 16,
      maxNumSeqs: 2,
    });
    bench.submit({ id: 'a', adapter: 'x', prompt: prompt(7), maxTokens: 9 });
    bench.submit({ id: 'b', adapter: 'y', prompt: prompt(3, 1) });
    bench.engine.step();
    const { core } = bench.engine.scheduler;
    core.native.pin(core.freeQueue());
    const { handle } = { handle: bench.engine.scheduler.get('a')?.handle as number };
    bench.engine.hold(handle, 'store', 'job');
    for (let i = 0; i < 14; i++) bench.engine.step();
    expect(bench.engine.scheduler.inspect()).toMatchObject({ running: ['a'], skipped: ['b'] });
    expect(bench.engine.health().reasons.join()).toMatch(
      /with 1 running and 1 waiting requests and 0 free blocks/,
    );
  });
});
