// The blocks that a load fills, a store reads and a plan takes, by group.
import type { PlanFacts } from '../audit/facts.js';
import { type GroupRule, keepsTokens, neededPlaces } from '../audit/group-rules.js';
import type { Held } from '../audit/turns.js';

type Rows = Pick<Held, 'rows' | 'rowTurns'>;

/** A block that a load fills, or a store reads, and in whose turn. */
export interface Target {
  readonly group: number;
  readonly block: number;
  readonly turn: number;
  /** Positions [from, to) are moved; of a state the one that it stands behind. */
  readonly from: number;
  readonly to: number;
}

/**
 * The blocks of a request's rows that a load of positions [from, to) fills: those that the next
 * token behind them needs, and no others.
 */
export function loaded(groups: readonly GroupRule[], held: Rows, from: number, to: number): Target[] {
  return groups.flatMap((group, g) => {
    const { first, end } = neededPlaces(group, to);
    const { size } = group;
    const places = Array.from({ length: end - first }, (_, i) => first + i);
    const between = (place: number): { from: number; to: number } =>
      keepsTokens(group)
        ? { from: Math.max(from, place * size), to: Math.min(to, (place + 1) * size) }
        : { from: to - 1, to };
    return places
      .filter((place) => place >= Math.floor(from / size))
      .map((place) => ({
        ...{ group: g, block: held.rows[g][place] ?? 0, turn: held.rowTurns[g][place] ?? 0 },
        ...between(place),
      }));
  });
}

/** All blocks in these rows. */
export function stored(groups: readonly GroupRule[], { rows, rowTurns }: Rows): Target[] {
  return groups.flatMap(({ size }, g) =>
    rows[g].flatMap((block, i) =>
      block === 0 ? [] : [{ group: g, block, turn: rowTurns[g][i], from: i * size, to: (i + 1) * size }],
    ),
  );
}

/** The blocks that the entries of a plan took from the pool. @param held by entry */
export function takenIn({ entries }: PlanFacts, held: readonly Held[]): ReadonlySet<number> {
  const blocks = entries.flatMap(({ taken }, i) =>
    taken.flatMap(({ from, until }, g) => held[i].rows[g].slice(from, until)),
  );
  return new Set(blocks);
}
