/**
 * An adapter that borrows requests: at most so many requests of each tenant run at a time, while requests of other
 * tenants pass them. `docs/borrowing.md` walks through it.
 *
 *     new Engine({ ...options, executor, borrower: new TenantLimit(2) });
 *
 *     npx tsx examples/tenant-limit.ts
 *
 * prints the requests in the order of their ends, without the limit and with it.
 */
import { pathToFileURL } from 'node:url';
import { Engine, ReferenceExecutor, type Request } from 'blockstep';
import type { BorrowingAdapter, BorrowQueues } from 'blockstep/borrow';

/** Limits the running requests of each tenant. The tenant is the part of the id in front of the slash. */
export class TenantLimit implements BorrowingAdapter {
  readonly #held: Request[] = [];
  /** The scheduler takes ended requests out of these arrays, so they are the only place for requests. */
  readonly parked = [this.#held];

  constructor(readonly maxRunning: number) {}

  /** Takes the requests that must wait out of the waiting queue, before the step is planned. */
  processPendingChunks({ waiting, running }: BorrowQueues): void {
    const numRunning = new Map<string, number>();
    const mayRun = (request: Request): boolean => {
      const tenant = tenantOf(request);
      const count = numRunning.get(tenant) ?? 0;
      numRunning.set(tenant, count + 1);
      return count < this.maxRunning;
    };
    for (const request of running) mayRun(request);
    for (const request of waiting) if (!mayRun(request) && waiting.remove(request)) this.#held.push(request);
  }

  /** Puts them back after planning, in their order. */
  restoreQueues({ waiting }: BorrowQueues): void {
    for (const request of this.#held.splice(0).reverse()) waiting.pushFront(request);
  }
}

function tenantOf({ id }: Request): string {
  return id.slice(0, id.indexOf('/'));
}

/** Runs six requests of a busy tenant and one of another. @returns their ids in the order of their ends */
export async function orderOfEnds(borrower: BorrowingAdapter | null): Promise<string[]> {
  const sizes = { numBlocks: 64, blockSize: 16, maxNumSeqs: 4, maxModelLen: 256 };
  await using engine = new Engine({ ...sizes, executor: new ReferenceExecutor(sizes), borrower });
  const ids = ['busy/1', 'busy/2', 'busy/3', 'busy/4', 'busy/5', 'busy/6', 'other/1'];
  const ends: string[] = [];
  const requests = ids.map(async (id) => {
    await engine.submit({ id, prompt: [1, 2, 3], maxTokens: 8 }).result();
    ends.push(id);
  });
  engine.run();
  await Promise.all(requests);
  return ends;
}

export async function main(print: (line: string) => void): Promise<void> {
  print(`without a limit: ${(await orderOfEnds(null)).join(' ')}`);
  print(`two of a tenant: ${(await orderOfEnds(new TenantLimit(2))).join(' ')}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main(console.log);
