import { HASH_BYTES } from '../../../../src/scheduler/events/kv-event.js';
import type { SubjectEventGroup, SubjectKvEvent, SubjectOptions } from '../../subject.js';
import type { ReferenceRequest } from '../request.js';
import type { ContentName, Key } from './contents.js';

/** A content name in place of a hash. */
function hashesOf(names: readonly ContentName[]): Uint8Array {
  const bytes = new Uint8Array(names.length * HASH_BYTES);
  const view = new DataView(bytes.buffer);
  for (const [i, name] of names.entries()) view.setUint32(i * HASH_BYTES, name, true);
  return bytes;
}

/**
 * Writes down what happens to the prefix cache, in the order in which it happens, until it is
 * reported.
 */
export class EventLog {
  readonly #sink: SubjectOptions['kvEvents'];
  #events: SubjectKvEvent[] = [];

  constructor(sink: SubjectOptions['kvEvents']) {
    this.#sink = sink;
  }

  /**
   * Places of a request have got keys.
   * @param places ascending; each run of them is an event of its own
   * @param nameOf the content name of a place
   */
  stored(
    request: ReferenceRequest,
    group: SubjectEventGroup,
    places: readonly number[],
    nameOf: (place: number) => ContentName,
  ): void {
    const { cacheSalt = null, adapter = null } = request.input;
    for (let i = 0, end: number; i < places.length; i = end) {
      for (end = i + 1; places[end] === places[end - 1] + 1; ) end++;
      const [first, after] = [places[i], places[end - 1] + 1];
      const tokens = request.tokens.slice(first * group.blockSize, after * group.blockSize);
      this.#events.push({
        type: 'stored',
        medium: 'GPU',
        hashes: hashesOf(places.slice(i, end).map(nameOf)),
        parentHash: first === 0 ? null : hashesOf([nameOf(first - 1)]),
        firstBlock: first,
        tokenIds: Int32Array.from(tokens),
        adapter,
        cacheSalt,
        isReused: false,
        ...group,
      });
    }
  }

  removed({ name, group }: Key): void {
    this.#events.push({ type: 'removed', medium: 'GPU', hashes: hashesOf([name]), group });
  }

  cleared(): void {
    this.#events.push({ type: 'cleared' });
  }

  /** Tells the sink what it does not know yet. */
  tell(): void {
    const events = this.#events;
    this.#events = [];
    if (events.length > 0) this.#sink?.onEvents(events);
  }
}
