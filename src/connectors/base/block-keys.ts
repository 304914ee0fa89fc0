import type { KvView } from '../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';

/** Bits of a key that name the group. There are at most 8 groups. */
const GROUP_BITS = 3n;
const GROUP_MASK = (1n << GROUP_BITS) - 1n;

/**
 * Names blocks by their content, so that a connector can find them again. With one group of full
 * attention, the key of a block is its hash. With KV cache groups, the key holds the hash and the
 * group. Two blocks of different groups that end at the same token have the same hash.
 */
export class BlockKeys {
  readonly #view: KvView;
  /** By group: the bits of the key below the hash. Null: keys are plain hashes. */
  readonly #tags: readonly bigint[] | null;

  constructor(view: KvView) {
    this.#view = view;
    this.#tags = view.layout === '' ? null : view.groups.map((_, group) => BigInt(group));
  }

  /**
   * Returns the key of one place of a request. The request's known tokens must fill the block.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  of(request: ConnectorRequest, place: number, group: number): bigint {
    if (this.#tags === null) return this.#view.blockHash(request, place);
    return (this.#view.blockHash(request, place, group) << GROUP_BITS) | this.#tags[group];
  }

  /** Returns the group of a key. */
  groupOf(key: bigint): number {
    return this.#tags === null ? 0 : Number(key & GROUP_MASK);
  }

  /** Returns the hash inside a key, in the form of `KvView.blockHash`. */
  hashOf(key: bigint): bigint {
    return this.#tags === null ? key : key >> GROUP_BITS;
  }
}
