// Reads the words of the native core about KV cache events.
import { HASH_BYTES, type KvBlocksStored, type KvEvent } from './kv-event.js';

/** Kinds of events, numbered as in native code (native/host/events/kv_events.h). */
const Kind = { stored: 1, reused: 2, removed: 3, cleared: 4 } as const;

const KEY_WORDS = HASH_BYTES / 4;

/** The properties of a group that events contain. */
export type EventGroup = Pick<KvBlocksStored, 'blockSize' | 'kind' | 'window'>;

/** The scheduler's data about the origin of a request's hashes. */
export interface HashNames {
  readonly adapter: string | null;
  readonly cacheSalt: string | null;
}

/**
 * Decodes the events of native code. They keep parts of `words`, so the caller must not reuse it.
 * @param words as `NativeCore.drainKvEvents` gives them
 * @param groups the KV cache groups, in their order
 * @param namesOf the names for the hashes of the request with a handle
 */
export function readKvEvents(
  words: Uint32Array,
  groups: readonly EventGroup[],
  namesOf: (handle: number) => HashNames,
): KvEvent[] {
  const events: KvEvent[] = [];
  let at = 0;
  const bytes = (numWords: number): Uint8Array => {
    const view = new Uint8Array(words.buffer, words.byteOffset + 4 * at, 4 * numWords);
    at += numWords;
    return view;
  };
  const stored = (isReused: boolean): KvBlocksStored => {
    const handle = words[at] + words[at + 1] * 2 ** 32;
    const group = words[at + 2];
    const firstBlock = words[at + 3];
    const numBlocks = words[at + 4];
    const hasParent = words[at + 5] === 1;
    at += 6;
    const { blockSize, kind, window } = groups[group];
    const parent = bytes(KEY_WORDS);
    const hashes = bytes(numBlocks * KEY_WORDS);
    const tokenIds = new Int32Array(words.buffer, words.byteOffset + 4 * at, numBlocks * blockSize);
    at += numBlocks * blockSize;
    const parentHash = hasParent ? parent : null;
    const names = namesOf(handle);
    const ofGroup = { group, blockSize, kind, window };
    const places = { hashes, parentHash, firstBlock, tokenIds };
    return { type: 'stored', medium: 'GPU', ...places, ...names, isReused, ...ofGroup };
  };
  while (at < words.length) {
    const kind = words[at++];
    if (kind === Kind.removed) {
      const group = words[at++];
      const numBlocks = words[at++];
      events.push({ type: 'removed', medium: 'GPU', hashes: bytes(numBlocks * KEY_WORDS), group });
    } else if (kind === Kind.cleared) events.push({ type: 'cleared' });
    else events.push(stored(kind === Kind.reused));
  }
  return events;
}
