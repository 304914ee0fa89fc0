import { HASH_BYTES, type KvEvent, type KvEventSink } from '../../../src/scheduler/events/kv-event.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import { IndexAudit, type IndexFact } from '../audit/index-audit.js';

/** Reads the events of the prefix cache for the auditor, as a router would. */
export class IndexReader {
  readonly audit = new IndexAudit();
  readonly sink: KvEventSink;

  /** @param wrong told what is wrong, since a sink that throws is only counted */
  constructor(blockSize: number, wrong: (what: string) => void) {
    this.sink = {
      report: 'all',
      onEvents: (events) => {
        try {
          for (const event of events) this.audit.told(indexFact(event, blockSize));
        } catch (error) {
          wrong((error as Error).message);
        }
      },
    };
  }

  /** Compares with what the prefix cache has, behind a `schedule()`. @throws Violation */
  check(scheduler: Scheduler): void {
    this.audit.check(cachedHashes(scheduler));
  }
}

/** An event of the prefix cache as plain data. */
function indexFact(event: KvEvent, blockSize: number): IndexFact {
  if (event.type === 'cleared') return { type: 'cleared' };
  const hashes: string[] = [];
  for (let at = 0; at < event.hashes.length; at += HASH_BYTES)
    hashes.push(hexOf(event.hashes.subarray(at, at + HASH_BYTES)));
  if (event.type === 'removed') return { type: 'removed', hashes };
  const { parentHash, tokenIds, adapter, cacheSalt, isReused } = event;
  const tokens: number[][] = [];
  for (let at = 0; at < tokenIds.length; at += blockSize)
    tokens.push([...tokenIds.subarray(at, at + blockSize)]);
  const parent = parentHash === null ? null : hexOf(parentHash);
  return { type: 'stored', hashes, parent, tokens, names: `${adapter}/${cacheSalt}`, isReused };
}

/** The hashes that the prefix cache has. */
function cachedHashes({ core }: Scheduler): string[] {
  return [...core.published()].map((id) => {
    const hash = core.native.publishedHash(id);
    if (hash === null) throw new Error(`block ${id} is published, and has no hash`);
    return hash.toString(16).padStart(2 * HASH_BYTES, '0');
  });
}

/** The digits of a number in little endian. */
function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).reverse().toString('hex');
}
