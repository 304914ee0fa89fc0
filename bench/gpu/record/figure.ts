/** One figure of the native benchmark (native/test/gpu/bench/bench.cc), as it prints it: one JSON object a line. */
export interface Figure {
  /** Unique together with authority and beside, and stable between versions. */
  name: string;
  /** The side that decided the step; null where nothing is decided. */
  authority: 'host' | 'device' | null;
  /** The other work of the GPU meanwhile. */
  beside:
    | 'idle'
    | 'idle, asked in every poll'
    | 'matrix product'
    | 'persistent matrix product'
    | 'copies from the host'
    | 'copies to the host'
    | 'right behind a matrix product';
  p50Us: number;
  p99Us: number;
  samples: number;
  /** Clock of the multiprocessors when it was measured. */
  clockMHz?: number;
  /** The limit that we set ourselves for p50. */
  budgetUs?: number;
  /** Of copies: bytes a block, and the bytes a second that p50 means, in 10^9. */
  blockBytes?: number;
  gbPerSecond?: number;
}

export function isFigure(value: unknown): value is Figure {
  const { name, authority, beside, p50Us, p99Us, samples } = value as Record<keyof Figure, unknown>;
  const numbers = [p50Us, p99Us, samples].every((number) => typeof number === 'number' && number >= 0);
  return typeof name === 'string' && authority !== undefined && typeof beside === 'string' && numbers;
}

/** The figures in the benchmark's output, also if the output ends in the middle of a figure. */
export function readFigures(output: string): Figure[] {
  return output.split('\n').flatMap((line) => {
    try {
      const value: unknown = JSON.parse(line);
      return typeof value === 'object' && value !== null && isFigure(value) ? [value] : [];
    } catch {
      return [];
    }
  });
}
