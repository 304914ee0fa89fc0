import type { KvView } from '../../scheduler/connector/kv-view.js';
import type { Request } from '../../scheduler/request/request.js';

/** Bits of a key that name the group. There are at most 8 groups. */
const GROUP_BITS = 3n;
const GROUP_MASK = (1n << GROUP_BITS) - 1n;

/**
 * Names blocks of content, for a connector that finds them again. With one group of full attention the key of a block is its hash. With KV
 * cache groups it is hash and group, since blocks of two groups that end at the same token have one hash.
 */
export class BlockKeys {
  readonly #view: KvView;
  /** By group: what stands in the key below the hash; null = keys are hashes. */
  readonly #tags: readonly bigint[] | null;

  constructor(view: KvView) {
    this.#view = view;
    this.#tags = view.layout === '' ? null : view.groups.map((_, group) => BigInt(group));
  }

  /** The key of a place of a request. Its known tokens must fill the block. @throws ERR_BLOCKSTEP_BAD_ARG */
  of(request: Request, place: number, group: number): bigint {
    if (this.#tags === null) return this.#view.blockHash(request, place);
    return (this.#view.blockHash(request, place, group) << GROUP_BITS) | this.#tags[group];
  }

  /** The group of a key. */
  groupOf(key: bigint): number {
    return this.#tags === null ? 0 : Number(key & GROUP_MASK);
  }

  /** The hash in a key, as `KvView.blockHash` has it. */
  hashOf(key: bigint): bigint {
    return this.#tags === null ? key : key >> GROUP_BITS;
  }
}
