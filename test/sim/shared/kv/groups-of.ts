import type { GroupRule } from '../../audit/group-rules.js';

/** A KV cache group by its options, or as they were resolved. */
interface Group {
  type: GroupRule['type'] | 'mla';
  blockSize?: number;
  window?: number;
  chunk?: number;
  mode?: GroupRule['mode'];
  sinkTokens?: number;
}

/** The sizes on which a run's groups depend. */
interface Sizes {
  blockSize: number;
  maxModelLen: number;
  /** Of groups of states: blocks for states of drafts. */
  spare: number;
}

/** KV cache groups as the auditor knows them; without any: one of full attention. */
export function groupsOf(
  groups: readonly Group[] | null | undefined,
  { blockSize, maxModelLen, spare }: Sizes,
): readonly GroupRule[] {
  return (groups ?? [{ type: 'full' }]).map((group): GroupRule => {
    const { type, window = 0, chunk = 0, mode = null, sinkTokens = 0 } = group;
    const size = group.blockSize ?? (type === 'mamba' ? maxModelLen : blockSize);
    return {
      ...{ type: type === 'mla' ? 'full' : type, size, window, chunk, mode },
      ...{ sinks: sinkTokens / size, spare: type === 'mamba' ? spare : 0 },
    };
  });
}
