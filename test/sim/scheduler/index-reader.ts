import type { KvEvent, KvEventSink } from '../../../src/scheduler/events/kv-event.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import { cachedHashes, hashesOf, hashOf } from '../../support/prefix-hashes.js';
import { IndexAudit, type IndexFact } from '../audit/index-audit.js';
import { mayBePart } from './cached-blocks.js';

/** Reads the events of the prefix cache for the auditor, as a router would. */
export class IndexReader {
  readonly audit = new IndexAudit();
  readonly sink: KvEventSink;

  /** @param wrong called with each violation, since a sink that throws is only counted */
  constructor(wrong: (what: string) => void) {
    this.sink = {
      report: 'all',
      onEvents: (events) => {
        try {
          for (const event of events) this.audit.told(indexFact(event));
        } catch (error) {
          wrong((error as Error).message);
        }
      },
    };
  }

  /** Compares with the content of the prefix cache, after a `schedule()`. @throws Violation */
  check(scheduler: Scheduler): void {
    const hashes: string[] = [];
    const unsure: string[] = [];
    for (let group = 0; group < scheduler.core.numGroups; group++) {
      const found = cachedHashes(scheduler, group).map((hash) => ofGroup(hash, group));
      (mayBePart(scheduler.config, group) ? unsure : hashes).push(...found);
    }
    this.audit.check(hashes, unsure);
  }
}

/** The same tokens have the same hash in every group, and other KV. */
function ofGroup(hash: string, group: number): string {
  return group === 0 ? hash : `${hash}/${group}`;
}

/** An event of the prefix cache as plain data. */
function indexFact(event: KvEvent): IndexFact {
  if (event.type === 'cleared') return { type: 'cleared' };
  const { group } = event;
  const hashes = hashesOf(event.hashes).map((hash) => ofGroup(hash, group));
  if (event.type === 'removed') return { type: 'removed', hashes };
  const { parentHash, firstBlock, tokenIds, adapter, cacheSalt, isReused, blockSize, kind } = event;
  const tokens: number[][] = [];
  for (let at = 0; at < tokenIds.length; at += blockSize)
    tokens.push([...tokenIds.subarray(at, at + blockSize)]);
  const parent = parentHash === null ? null : ofGroup(hashOf(parentHash), group);
  const hasHoles = kind !== 'full' && kind !== 'mla' && kind !== 'sink';
  const names = `${adapter}/${cacheSalt}`;
  return { type: 'stored', hashes, parent, firstBlock, tokens, names, isReused, hasHoles };
}
