// Failures of the catalogue (`test/guards`) as scripts.
import { describe, expect, it } from 'vitest';
import { by, Script } from './script.js';

const BOTH = [0, 1];

/**
 * The failures of the design's table as event lists, small enough to be read. The auditor checks
 * after every line; a script itself expects only the facts that it is about.
 */
describe.each([1, 2] as const)('scripts at depth %i', (pipelineDepth) => {
  const scheduler = { pipelineDepth };

  it('F1: reports about a request that is gone are counted, and change nothing', () => {
    const script = new Script({ scheduler });
    const r = script.add('r', 20, 1);
    script.schedule();
    script.update();
    expect(script.reason(r)).toBe('length');
    script.schedule();
    script.update({ sent: by(r, BOTH) });
    expect(script.anomaly('stale-handle')).toBe(2);
    script.end();
  });

  it('F2: an abort of a request that has finished does nothing; its blocks go at its last report', () => {
    const script = new Script({ scheduler, behaviours: { r: { sends: [0] } } });
    const r = script.add('r', 20, 1);
    script.schedule();
    script.update();
    script.abort(r);
    script.abort(r);
    expect(script.stats.numDraining).toBe(1);
    script.report({ sent: by(r, [0]) });
    expect(script.stats.freeBlocks).toBe(30);
    script.report({ sent: by(r, [1]) });
    expect(script.stats.freeBlocks).toBe(32);
    expect(script.timesFinished(r)).toBe(1);
    expect(script.anomaly('abort-finished')).toBe(2);
    script.end();
  });

  it('F3: an abort while the last step runs wins over its length', () => {
    const script = new Script({ scheduler });
    const r = script.add('r', 20, 1);
    script.schedule();
    script.world.execute();
    script.abort('r');
    script.update();
    expect(script.reason(r)).toBe('abort');
    script.end();
  });

  it('F5: the same with blocks to be sent: one callback, freed once, by the report of that very update', () => {
    const script = new Script({ scheduler, behaviours: { r: { sends: [0] } } });
    const r = script.add('r', 20, 1);
    script.schedule();
    script.world.execute();
    script.abort('r');
    script.update({ sent: by(r, BOTH) });
    expect(script.timesFinished(r)).toBe(1);
    expect(script.stats.freeBlocks).toBe(32);
    script.end();
  });

  describe('F10: a request is loaded, aborted, and its blocks are sent', () => {
    const begin = () => {
      const script = new Script({ scheduler, behaviours: { r: { has: 16, sends: [0] } } });
      const r = script.add('r', 20, 4);
      script.schedule();
      script.abort('r');
      expect(script.stats.numDraining).toBe(1);
      return { script, r };
    };

    it.each([
      ['received first', ['received', 'sent']],
      ['sent first', ['sent', 'received']],
    ] as const)('%s: its blocks stay until both are over', (_, order) => {
      const { script, r } = begin();
      for (const kind of order) {
        expect(script.stats.freeBlocks).toBe(31);
        script.report({ [kind]: by(r, BOTH) });
      }
      expect(script.stats.freeBlocks).toBe(32);
      script.end();
    });

    it('both in one report', () => {
      const { script, r } = begin();
      script.report({ received: by(r, BOTH), sent: by(r, BOTH) });
      expect(script.stats.freeBlocks).toBe(32);
      script.end();
    });
  });

  it('F11: a rank that reports twice does not speak for the other one', () => {
    const script = new Script({ scheduler, behaviours: { r: { has: 16 } } });
    const r = script.add('r', 20, 4);
    script.schedule();
    script.report({ received: by(r, [0]) });
    script.report({ received: by(r, [0]) });
    expect(script.schedule().totalTokens).toBe(0);
    expect(script.status(r)).toBe('WAITING_FOR_REMOTE_KVS');
    expect(script.anomaly('duplicate-completion')).toBe(1);
    script.report({ received: by(r, [1]) });
    expect(script.schedule().totalTokens).toBe(4);
    script.end();
  });

  it('F13: blocks that are still being loaded go to nobody else', () => {
    const behaviours = { r: { has: 64 } };
    const script = new Script({ scheduler: { ...scheduler, numBlocks: 10 }, behaviours });
    const r = script.add('r', 66, 4);
    script.schedule();
    script.abort('r');
    script.add('q', 140, 1);
    expect(script.schedule().totalTokens).toBe(0);
    script.report({ received: by(r, BOTH) });
    expect(script.schedule().totalTokens).toBe(140);
    script.end();
  });

  it('F14: an abort between the report of a load and the next step frees the blocks at once', () => {
    const script = new Script({ scheduler, behaviours: { r: { has: 16 } } });
    const r = script.add('r', 20, 4);
    script.schedule();
    script.report({ received: by(r, BOTH) });
    script.abort('r');
    expect(script.stats).toMatchObject({ freeBlocks: 32, numDraining: 0, numLoading: 0 });
    script.end();
  });

  it('F15: late reports of an earlier request of the same id leave the new one alone', () => {
    const script = new Script({ scheduler, behaviours: { r: { has: 16 } } });
    const first = script.add('r', 20, 4);
    script.schedule();
    script.abort('r');
    const second = script.add('r', 20, 4);
    script.schedule();
    expect(script.status(second)).toBe('WAITING_FOR_REMOTE_KVS');
    script.report({ received: by(first, BOTH) });
    expect(script.status(second)).toBe('WAITING_FOR_REMOTE_KVS');
    expect(script.world.scheduler.getByHandle(first)).toBeUndefined();
    script.report({ received: by(first, BOTH) });
    expect(script.anomaly('stale-handle')).toBe(2);
    script.report({ received: by(second, BOTH) });
    script.end();
    expect(script.reason(second)).toBe('length');
  });

  it('F19: a synchronous load that failed ends its request, and nothing behind the bad block is found', () => {
    const behaviours = { r: { has: 160, sync: true, bad: [5] } };
    const script = new Script({ scheduler: { ...scheduler, loadFailurePolicy: 'fail' }, behaviours });
    const r = script.add('r', 162, 4);
    script.schedule();
    script.update();
    expect(script.reason(r)).toBe('error');
    expect(script.stats.cachedBlocks).toBe(5);
    const q = script.add('q', 162, 1, 'r'.charCodeAt(0));
    expect(script.schedule().numComputedTokens[0]).toBe(80);
    script.end();
    expect(script.reason(q)).toBe('length');
  });

  it('F20: of an asynchronous load what stands before the bad block is kept, and the rest computed', () => {
    const behaviours = { r: { has: 64, bad: [2] } };
    const script = new Script({ scheduler: { ...scheduler, loadFailurePolicy: 'recompute' }, behaviours });
    const r = script.add('r', 66, 4);
    script.schedule();
    const invalid = [{ block: script.blocks(r)[2], handle: r, child: 0 }];
    script.report({ invalid, received: by(r, BOTH) });
    const plan = script.schedule();
    expect([plan.numComputedTokens[0], plan.numScheduledTokens[0]]).toEqual([32, 34]);
    script.end();
    expect(script.reason(r)).toBe('length');
  });

  it('F29: blocks that are still sent are work', () => {
    const script = new Script({ scheduler, behaviours: { r: { sends: [0] } } });
    const r = script.add('r', 20, 1);
    script.schedule();
    script.update();
    script.schedule();
    script.update();
    expect(script.world.scheduler.hasWork()).toBe(true);
    script.report({ sent: by(r, BOTH) });
    expect(script.world.scheduler.hasWork()).toBe(false);
    script.end();
  });

  it('F33: requests whose prefixes were loaded into all blocks do not keep one another from running', () => {
    const ids = ['a', 'b', 'c', 'd', 'e'];
    const behaviours = Object.fromEntries(ids.map((id) => [id, { has: 32 }]));
    const options = { ...scheduler, numBlocks: 11, reserveFullIsl: false, loadReservation: false };
    const script = new Script({ scheduler: options, behaviours });
    const handles = ids.map((id) => script.add(id, 34, 1));
    script.schedule();
    expect(script.stats.freeBlocks).toBe(0);
    script.report({ received: handles.flatMap((handle) => by(handle, BOTH)) });
    script.schedule();
    expect(script.stats.numRunning).toBeGreaterThan(0);
    expect(script.stats.loadsReclaimed).toBeGreaterThan(0);
    // Requests that lost their loaded blocks load them again.
    for (let i = 0; i < 40 && script.world.scheduler.hasWork(); i++) {
      script.update();
      const loading = handles.filter((handle) => script.status(handle) === 'WAITING_FOR_REMOTE_KVS');
      const ready = loading.filter((handle) => script.world.auditor.ledger.account(handle).loadingSince >= 0);
      while (script.world.executor.steps.length > 0) script.update();
      if (ready.length > 0) script.report({ received: ready.flatMap((handle) => by(handle, BOTH)) });
      script.schedule();
    }
    script.end();
  });

  it('F33: one whose prompt was loaded whole needs a block for its drafts, which the one behind it holds', () => {
    const speculative = { numSpeculativeTokens: 2, speculativeMethod: 'eagle', numBlocks: 8 } as const;
    const behaviours = { r: { has: 64 }, q: { has: 48 } };
    const script = new Script({ scheduler: { ...scheduler, ...speculative }, behaviours });
    const r = script.add('r', 64, 2);
    const q = script.add('q', 48, 2);
    script.steps(1);
    expect(script.stats.freeBlocks).toBe(0);
    script.report({ received: [...by(r, BOTH), ...by(q, BOTH)] });
    script.schedule();
    expect([script.status(r), script.stats.loadsReclaimed]).toEqual(['RUNNING', 1]);
    script.update();
    script.steps(2);
    // The request lost its loaded blocks, and loads them again.
    expect(script.status(q)).toBe('WAITING_FOR_REMOTE_KVS');
    script.report({ received: by(q, BOTH) });
    script.end();
    expect([script.reason(r), script.reason(q)]).toEqual(['length', 'length']);
  });

  it('F33: two loads that begin in one step, one of them anew, each leave room for the other', () => {
    const august = { like: '017e9f444', reserveFullIsl: false, loadFailurePolicy: 'recompute' } as const;
    const behaviours = { r: { has: 32 }, q: { has: 16 } };
    const pool = { numBlocks: 4, enablePrefixCaching: false };
    const script = new Script({ scheduler: { ...scheduler, ...august, ...pool }, behaviours });
    const r = script.add('r', 32, 1);
    const q = script.add('q', 20, 1);
    script.steps(1);
    script.report({ failed: by(r, BOTH), received: by(r, BOTH) });
    script.steps(1);
    // Beside q, which needs a second block, there is no room for r.
    expect([script.status(r), script.status(q)]).toEqual(['WAITING', 'WAITING_FOR_REMOTE_KVS']);
    script.report({ received: by(q, BOTH) });
    script.steps(1);
    // So r takes what q holds; then q begins again, with the block that r leaves.
    expect(script.stats.loadsReclaimed).toBe(1);
    expect([r, q].map((handle) => script.blocks(handle).length)).toEqual([2, 1]);
    expect(script.status(r)).toBe('WAITING_FOR_REMOTE_KVS');
    script.report({ received: [...by(r, BOTH), ...by(q, BOTH)] });
    script.end();
    expect([script.reason(r), script.reason(q)]).toEqual(['length', 'length']);
  });

  it('F40: a reset while something is loaded is refused with who is in the way', () => {
    const script = new Script({ scheduler, behaviours: { r: { has: 16 } } });
    const r = script.add('r', 20, 4);
    script.schedule();
    const result = script.world.scheduler.resetPrefixCache({ resetRunning: true });
    expect(result).toMatchObject({ ok: false, blockers: ['r'] });
    script.report({ received: by(r, BOTH) });
    script.end();
  });

  it('F42: only the child that loads can say that the load is over', () => {
    const script = new Script({ scheduler, reporters: [[0], [0]], behaviours: { r: { has: 16, child: 1 } } });
    const r = script.add('r', 20, 4);
    script.schedule();
    script.report({ received: by(r, [0], 0) });
    expect(script.schedule().totalTokens).toBe(0);
    expect(script.anomaly('wrong-owner')).toBe(1);
    script.report({ received: by(r, [0], 1) });
    expect(script.schedule().totalTokens).toBe(4);
    script.end();
  });
});

describe('scripts at depth 2', () => {
  it('F36: a request that stops with what was in flight when it was preempted has no blocks to send', () => {
    const scheduler = { pipelineDepth: 2 as const, numBlocks: 5, enablePrefixCaching: false };
    const script = new Script({ scheduler, behaviours: { r: { sends: [0] } } });
    script.add('q', 32, 2);
    const r = script.add('r', 16, 5, undefined, 16);
    script.schedule();
    // q takes the last free block, and r needs another one.
    script.schedule();
    expect(script.stats.numPreemptions).toBe(1);
    script.update();
    expect(script.reason(r)).toBe('stop');
    expect(script.timesFinished(r)).toBe(1);
    expect(script.stats.numDraining).toBe(0);
    script.end();
  });

  it('F36: one that must deliver is computed again, and has them', () => {
    const scheduler = { pipelineDepth: 2 as const, numBlocks: 5, enablePrefixCaching: false };
    const script = new Script({ scheduler, behaviours: { r: { sends: [0], delivers: true } } });
    script.add('q', 32, 2);
    const r = script.add('r', 16, 5, undefined, 16);
    script.schedule();
    script.schedule();
    script.update();
    expect(script.reason(r)).toBeNull();
    script.update();
    script.steps(2);
    expect(script.reason(r)).toBe('stop');
    expect(script.stats.numDraining).toBe(1);
    script.report({ sent: by(r, BOTH) });
    script.end();
  });

  it('F38: blocks of a request that ended may be given away at once, and are loaded only when its steps have run', () => {
    const scheduler = { pipelineDepth: 2 as const, numBlocks: 5, enablePrefixCaching: false };
    const script = new Script({ scheduler, behaviours: { q: { has: 48 } } });
    const r = script.add('r', 60, 2);
    script.schedule();
    script.schedule();
    const blocks = script.blocks(r);
    script.update();
    script.abort('r');
    const q = script.add('q', 50, 1);
    script.schedule();
    expect(script.blocks(q).some((block) => blocks.includes(block))).toBe(true);
    expect(() => script.report({ received: by(q, BOTH) })).toThrow(/may not touch memory yet/);
    script.update();
    script.report({ received: by(q, BOTH) });
    script.end();
    expect(script.reason(q)).toBe('length');
  });
});

describe('scripts at depth 3', () => {
  // A load of 50 tokens brings the blocks from 32 on; the one at 48 fails while two more steps are in flight.
  it.each([
    ['is there: from there on, though what the steps in flight are kept for was never loaded', 17, 48],
    ['is not: from the first token on', 18, 0],
  ])('I22: a failed load takes its request back to a place whose window %s', (_, window, computed) => {
    const kvGroups = [{ type: 'sliding', window }] as const;
    const policy = { windowBasis: 'processed', loadFailurePolicy: 'recompute' } as const;
    const behaviours = { r: { has: 50, sync: true, bad: [1] } };
    const script = new Script({ scheduler: { pipelineDepth: 3, kvGroups, ...policy }, behaviours });
    const r = script.add('r', 52, 6);
    for (let step = 0; step < 3; step++) script.schedule();
    // Computed again, it is not to be loaded again.
    behaviours.r.has = 0;
    script.update();
    const [behind] = script.schedule().numComputedTokens;
    expect([behind, script.stats.numPreemptions]).toEqual([computed, computed === 0 ? 1 : 0]);
    script.end();
    expect(script.reason(r)).toBe('length');
  });
});
