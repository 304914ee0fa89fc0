// Reads rows of block ids, and gives the state of KV cache groups in the form of a trace.
import { crc32 } from 'node:zlib';
import type { Subject, SubjectCore, SubjectRequest } from './subject.js';
import type { TraceConfig } from './trace.js';

type Core = Pick<SubjectCore, 'native'>;

/** Up to `count` places of a row, and one more if there is one, so that a longer row shows. */
export function readRow(core: Core, slot: number, from: number, count: number, group: number): number[] {
  const out = new Int32Array(count + 1);
  const { native } = core;
  const read = group === 0 ? native.readBlocks(slot, from, out) : native.readBlocks(slot, from, out, group);
  return Array.from(out.subarray(0, read));
}

/** All places of a row. */
function readWholeRow(core: Core, slot: number, group: number): number[] {
  for (let most = 63; ; most = 2 * most + 1) {
    const row = readRow(core, slot, 0, most, group);
    if (row.length <= most) return row;
  }
}

/** The KV cache groups of a trace, as far as the words of the trace depend on them. */
export class TraceGroups {
  /** @param order ids of the requests in the order of their first add */
  constructor(
    readonly count: number,
    private readonly order: readonly string[],
  ) {}

  /** Undefined: the trace is older than groups. */
  static of({ kv_groups }: TraceConfig, order: readonly string[]): TraceGroups | undefined {
    return kv_groups && new TraceGroups(kv_groups.length, order);
  }

  /** The fields of the groups that a trace records after a step. */
  observe(subject: Pick<Subject, 'core' | 'inspect'>): { cached_by_group: number[]; rows: number } {
    const cached = this.#cached(subject.core);
    return {
      cached_by_group: this.#each((group) => cached.filter((other) => other === group).length),
      rows: this.#rows(subject),
    };
  }

  /** The same, and the fields that only the end of a trace has. */
  observeFinal(subject: Pick<Subject, 'core' | 'inspect'>) {
    return { ...this.observe(subject), cached_groups: this.#cached(subject.core) };
  }

  /** The group of each block that carries a hash. */
  #cached(core: SubjectCore): number[] {
    return Array.from(core.published(), (id) => core.publishedGroup?.(id) ?? 0);
  }

  #rows(subject: Pick<Subject, 'core' | 'inspect'>): number {
    const { core } = subject;
    const { requests, draining } = subject.inspect();
    const place = ({ id }: SubjectRequest) => this.order.indexOf(id);
    const texts = [...requests, ...draining]
      .sort((a, b) => place(a) - place(b))
      .map(({ id, slot }) => ({ id, rows: this.#each((group) => readWholeRow(core, slot, group)) }))
      .filter(({ rows }) => rows.some((row) => row.length > 0))
      .map(({ id, rows }) => `${id}:${rows.map((row) => row.join()).join('|')}`);
    return crc32(texts.join(';'));
  }

  #each<T>(of: (group: number) => T): T[] {
    return Array.from({ length: this.count }, (_, group) => of(group));
  }
}
