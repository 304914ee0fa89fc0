// The limit for each tenant holds requests up, and leaves nothing behind when they are aborted.
import { expect, it } from 'vitest';
import { TenantLimit } from '../../examples/tenant-limit.js';
import { EngineBench } from '../support/engine-bench.js';
import { shownClass } from './shown.js';

it('is the adapter that docs/borrowing.md shows', () => {
  const own = shownClass('examples/tenant-limit.ts', 'TenantLimit');
  expect(own.length).toBeGreaterThan(500);
  expect(shownClass('docs/borrowing.md', 'TenantLimit')).toBe(own);
});

it('holds up the third request of a tenant, whatever ends meanwhile, and leaves nothing behind', async () => {
  const borrower = new TenantLimit(2);
  const bench = new EngineBench({ borrower, maxNumSeqs: 4, strict: true });
  for (const id of ['a/1', 'a/2', 'a/3', 'a/4', 'b/1']) bench.submit({ id, maxTokens: 4 });
  const running = (): string[] => [...(bench.executor.seen.at(-1)?.ids ?? [])].sort();
  await bench.engine.stepAsync();
  expect(running()).toEqual(['a/1', 'a/2', 'b/1']);
  // A waiting and a running request are aborted: the next request of the tenant takes the place.
  bench.engine.abort(['a/3', 'a/1']);
  await bench.engine.stepAsync();
  expect(running()).toEqual(['a/2', 'a/4', 'b/1']);
  await bench.finish();
  expect(borrower.parked).toEqual([[]]);
  expect(bench.engine.stats().scheduler.anomalies).toEqual({});
});
