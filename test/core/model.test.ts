// Random schedules: the core agrees with `pool-model.ts` after every step.
import { describe, expect, it } from 'vitest';
import { PendingOp } from '../../src/core/core.js';
import { loadAddon } from '../../src/core/loader.js';
import { BenchCore, range, seeded } from '../support/core-bench.js';
import { share } from '../support/share.js';
import { type ModelRequest, PoolModel } from './pool-model.js';

const ROWS = 5;
const MODEL_LEN = 64;

/** One random schedule, done by the core and by the model side by side. */
class Twins {
  readonly core: BenchCore;
  readonly model: PoolModel;
  readonly requests = new Map<number, ModelRequest>();
  readonly lookahead: number;
  readonly coverage = { stopped: 0, hits: 0, rejected: 0 };
  pins: number[] = [];

  constructor(readonly next: (n: number) => number) {
    const numBlocks = 6 + next(40);
    const blockSize = [1, 2, 3, 4, 16][next(5)];
    const caching = next(5) > 0;
    this.lookahead = next(3) * next(3);
    this.model = new PoolModel(numBlocks, blockSize, caching);
    this.core = new BenchCore(loadAddon(), {
      numBlocks,
      blockSize,
      numRows: ROWS,
      maxBlocksPerRow: MODEL_LEN,
      maxModelLen: MODEL_LEN,
      lookahead: this.lookahead,
      enablePrefixCaching: caching,
    });
  }

  step(): void {
    const actions = [
      this.add,
      this.admit,
      this.run,
      this.run,
      this.close,
      this.pool,
      this.rewrite,
      this.publish,
    ];
    actions[this.next(actions.length)].call(this);
    if (this.next(4) > 0) this.compare();
  }

  /** Prompts come from few beginnings, so that prefixes are shared. */
  private add(): void {
    if (this.requests.size === 8) return;
    const tokens = range(1 + this.next(MODEL_LEN / 2)).map(
      (i) => (i % 7) + 100 * this.next(this.next(3) + 1),
    );
    const identity = ['', 'a', 'b'][this.next(3)];
    const slot = this.core.open(tokens, identity, identity && 'salt');
    this.requests.set(slot, { tokens, identity, blocks: null, published: 0 });
  }

  private some(filter: (r: ModelRequest) => boolean): [number, ModelRequest] | undefined {
    const found = [...this.requests].filter(([, request]) => filter(request));
    return found[this.next(Math.max(found.length, 1))];
  }

  private admit(): void {
    const [slot, request] = this.some((r) => r.blocks === null) ?? [];
    if (slot === undefined || !request) return;
    const total = request.tokens.length;
    const hits = this.model.hits(request, Math.floor((total - 1) / this.model.blockSize));
    expect(this.core.native.match(slot, Math.floor((total - 1) / this.model.blockSize))).toBe(hits.length);
    this.coverage.hits += hits.length;
    const used = hits.slice(0, hits.length - (this.next(4) === 0 ? this.next(hits.length + 1) : 0));
    const need = Math.min(total, used.length * this.model.blockSize + 1 + this.next(total));
    const reserve = this.next(2) * total;
    const publish = this.next(3) > 0 ? need : 0;
    const row = this.core.native.admit(slot, used.length, reserve, need, publish);
    if (this.rows() === ROWS && row === -2) return;
    const done = this.model.admit(request, used, reserve, need, publish);
    if (!done) this.coverage.rejected += 1;
    expect(row >= 0).toBe(done);
  }

  private rows(): number {
    return [...this.requests.values()].filter((request) => request.blocks !== null).length;
  }

  /** Every running request computes a few tokens and may get one; the model does it entry by entry, as vLLM does. */
  private run(): void {
    const running = [...this.requests].filter(([, request]) => request.blocks !== null);
    running.sort(() => this.next(3) - 1);
    const after = running.map(([slot, request], i) => {
      if (this.next(3) > 0 && request.tokens.length < MODEL_LEN) {
        const token = this.next(2);
        this.core.push(PendingOp.append, slot, token);
        request.tokens.push(token);
      }
      const computed = this.next(request.tokens.length);
      const scheduled = 1 + this.next(request.tokens.length - computed);
      this.core.entry(i, slot, computed, scheduled);
      return computed + scheduled;
    });
    const fits = ([, request]: [number, ModelRequest], i: number) => {
      const target = Math.min(after[i] + this.lookahead, MODEL_LEN);
      if (!this.model.extend(request, Math.ceil(target / this.model.blockSize))) return false;
      this.model.publish(request, after[i]);
      return true;
    };
    const stop = running.findIndex((entry, i) => !fits(entry, i));
    if (stop >= 0) this.coverage.stopped += 1;
    expect(this.core.native.run(0, 0, running.length)).toBe(stop < 0 ? running.length : stop);
  }

  private close(): void {
    const [slot, request] = this.some(() => this.next(2) > 0) ?? [];
    if (slot === undefined || !request) return;
    this.model.release(request);
    if (this.next(3) === 0) {
      this.core.push(PendingOp.release, slot, 0);
      return;
    }
    this.core.close(slot);
    this.requests.delete(slot);
  }

  private pool(): void {
    const ids = range(this.next(4)).map(() => 1 + this.next(this.model.refs.length - 1));
    if (this.next(3) === 0) {
      this.core.native.evict(Int32Array.from(ids));
      this.model.evict(ids);
    } else if (this.pins.length > 0) {
      this.core.native.unpin(Int32Array.from(this.pins));
      this.model.drop(this.pins);
      this.pins = [];
    } else {
      this.core.native.pin(Int32Array.from(ids));
      this.model.touch(ids);
      this.pins = ids;
    }
  }

  private rewrite(): void {
    const [slot, request] = this.some((r) => r.tokens.length > 1) ?? [];
    if (slot === undefined || !request || this.next(2) > 0) return;
    const from = 1 + this.next(request.tokens.length);
    this.core.push(PendingOp.truncate, slot, from);
    request.tokens.length = Math.min(from, request.tokens.length);
  }

  private publish(): void {
    const [slot, request] = this.some((r) => r.blocks !== null) ?? [];
    if (slot === undefined || !request) return;
    const from = this.next(6);
    if (this.next(2) > 0) {
      this.core.push(PendingOp.evict, slot, from);
      this.model.evict(request.blocks!.slice(from));
      request.published = Math.min(request.published, from);
    }
    this.core.push(PendingOp.publish, slot, request.tokens.length);
    this.model.publish(request, request.tokens.length);
  }

  compare(): void {
    const { core, model } = this;
    expect([...core.freeQueue()]).toEqual(model.queue);
    expect([...core.published()]).toEqual([...model.keyOf.keys()].sort((a, b) => a - b));
    expect(model.refs.map((_, id) => (id === 0 ? 0 : core.native.refCount(id)))).toEqual(model.refs);
    expect([core.rowsInUse, core.evictions]).toEqual([this.rows(), model.evictions]);
    for (const [slot, request] of this.requests) {
      expect([...core.blocks(slot)]).toEqual(request.blocks ?? []);
      expect([...core.tokens(slot)]).toEqual(request.tokens);
    }
    core.native.verify();
  }
}

describe('the host core against a plain model of vLLM', () => {
  it('agrees after every step of random schedules', () => {
    const seen = { stopped: 0, hits: 0, rejected: 0, evictions: 0 };
    for (let seed = 1; seed <= share(12, 25, 60); seed++) {
      const twins = new Twins(seeded(seed));
      twins.core.native.record(true);
      for (let i = 0; i < 250; i++) twins.step();
      twins.compare();
      const replayed = loadAddon().replay(twins.core.config, twins.core.native.drainLog());
      expect(replayed.digest, `seed ${seed}`).toBe(twins.core.native.digest());
      seen.stopped += twins.coverage.stopped;
      seen.hits += twins.coverage.hits;
      seen.rejected += twins.coverage.rejected;
      seen.evictions += twins.model.evictions;
      twins.core.dispose();
    }
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(50);
  });
});
