// The tokens of a step reach their streams, also while requests join, leave, skip or move.
import { describe, expect, it } from 'vitest';
import { TokenList } from '../../../src/engine/outputs/token-list.js';
import { RecentTokens } from '../../../src/engine/streams/recent-tokens.js';
import type { Request, StepOutputs } from '../../../src/index.js';
import { Random } from '../../support/engine-bench.js';

/** A stream with a column: the tokens it was given, and those it should have been given. */
class Owner {
  readonly request: Request;
  readonly list = new TokenList();
  readonly due: number[] = [];
  readonly #recent: RecentTokens;
  column = -1;
  since = 0;
  isAwaited = false;
  woken = 0;

  constructor(recent: RecentTokens, id: number) {
    this.#recent = recent;
    this.request = { id: `${id}` } as Request;
  }

  pull(): void {
    if (this.column >= 0) this.#recent.drain(this, this.list);
  }

  wake(): void {
    this.woken++;
  }

  get text(): number[] {
    this.pull();
    return [...this.list.tokens()];
  }
}

/** A row of a step: whose it is, and its number of tokens. */
interface Row {
  readonly owner: Owner | null;
  readonly count: number;
  readonly ends: boolean;
}

function outputsOf(rows: readonly Row[], next: () => number): StepOutputs {
  const tokens: number[] = [];
  const tokenOffsets: number[] = [];
  for (const { owner, count } of rows) {
    tokenOffsets.push(tokens.length);
    for (let i = 0; i < count; i++) {
      const token = next();
      tokens.push(token);
      owner?.due.push(token);
    }
  }
  return {
    length: rows.length,
    requests: rows.map(({ owner }) => owner?.request ?? ({ id: 'nobody' } as Request)),
    tokens: Int32Array.from(tokens),
    tokenOffsets: Int32Array.from(tokenOffsets),
    tokenCounts: Int32Array.from(rows, ({ count }) => count),
    finishReasons: Uint8Array.from(rows, ({ ends }) => (ends ? 1 : 0)),
  } as unknown as StepOutputs;
}

// Pinned by: every line of recent-tokens.ts.
describe('the tokens of the last steps', () => {
  it.each([1, 2, 3, 4, 5, 6])(
    'seed %i: reach their streams, once and in order, whoever joins, leaves, skips or moves',
    (seed) => {
      const random = new Random(seed);
      const recent = new RecentTokens();
      const owners: Owner[] = [];
      const ended: Owner[] = [];
      const streams = { of: (request: Request) => owners.find((each) => each.request === request) };
      const skips = [0, 5, 40][seed % 3];
      let token = 0;
      let most = 0;
      for (let step = 0; step < 400; step++) {
        const wanted = step % 100 < 50 ? 70 : 3;
        while (owners.length < wanted && random.chance(60)) {
          const at = random.chance(80) ? owners.length : random.below(owners.length + 1);
          owners.splice(at, 0, new Owner(recent, token++));
        }
        if (random.chance(5)) owners.reverse();
        for (const owner of owners)
          if (random.chance(10)) {
            owner.isAwaited = !owner.isAwaited;
            recent.setAwaited(owner);
          }
        const rows: Row[] = owners
          .filter((_, i) => !random.chance(skips) && !(step % 90 > 45 && i % 2 === 0))
          .map((owner) => ({
            owner,
            count: random.chance(5) ? 2 * random.below(2) : 1,
            ends: random.chance(3),
          }));
        if (random.chance(10))
          rows.splice(random.below(rows.length + 1), 0, { owner: null, count: 1, ends: false });
        const outputs = outputsOf(rows, () => token++);
        const woken = owners.map((owner) => owner.woken);
        const isSingle = ({ owner, count, ends }: Row): boolean => owner !== null && count === 1 && !ends;
        expect(recent.write(outputs, streams)).toBe(rows.filter(isSingle).length);
        const left: (Row | undefined)[] = [];
        for (let i = 0; i < recent.numLeft; i++) {
          const row = recent.left[i];
          if (row < 0) {
            recent.owner(-1 - row)?.wake();
            continue;
          }
          left.push(rows[row]);
          const { owner, count, ends } = rows[row];
          if (owner === null) continue;
          owner.pull();
          owner.list.append(outputs.tokens, outputs.tokenOffsets[row], count, null);
          if (!ends) continue;
          recent.release(owner);
          owners.splice(owners.indexOf(owner), 1);
          ended.push(owner);
        }
        expect(left).toEqual(rows.filter((row) => !isSingle(row)));
        recent.rotate();
        owners.forEach((owner, i) => {
          const row = rows.find((each) => each.owner === owner);
          if (ended.length === 0 && row !== undefined)
            expect(owner.woken - woken[i]).toBe(owner.isAwaited && isSingle(row) ? 1 : 0);
          if (random.chance(3)) expect(owner.text).toEqual(owner.due);
        });
        most = Math.max(most, ...owners.map(({ column }) => column + 1));
      }
      for (const owner of [...owners, ...ended]) expect(owner.text).toEqual(owner.due);
      // Columns are used again.
      expect(most).toBeLessThanOrEqual(100);
      expect(most).toBeGreaterThan(32);
    },
  );

  it('are taken after 32 steps at the latest', () => {
    const recent = new RecentTokens();
    const owners = Array.from({ length: 40 }, (_, i) => new Owner(recent, i));
    const streams = { of: (request: Request) => owners[Number(request.id)] };
    for (let step = 0; step < 100; step++) {
      recent.write(
        outputsOf(
          owners.map((owner) => ({ owner, count: 1, ends: false })),
          () => step,
        ),
        streams,
      );
      recent.rotate();
      for (const { list } of owners) expect(step + 1 - list.length).toBeLessThanOrEqual(32);
    }
    expect(owners.every(({ list }) => list.length > 60)).toBe(true);
  });

  it('leave no column to a stream that gets none any more', () => {
    const recent = new RecentTokens();
    const [busy, idle] = [new Owner(recent, 0), new Owner(recent, 1)];
    const streams = { of: (request: Request) => [busy, idle][Number(request.id)] };
    const step = (...who: Owner[]): void => {
      recent.write(
        outputsOf(
          who.map((owner) => ({ owner, count: 1, ends: false })),
          () => 7,
        ),
        streams,
      );
      recent.rotate();
    };
    step(busy, idle);
    for (let i = 0; i < 70; i++) step(busy);
    expect([busy.column, idle.column]).toEqual([0, -1]);
    step(busy, idle);
    expect(idle.text).toEqual([7, 7]);
  });
});
