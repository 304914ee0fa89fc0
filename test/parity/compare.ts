// Counts comparisons and collects differences.

/** A place where the observed value differs from the recorded one. */
export interface Difference {
  path: string;
  expected: unknown;
  got: unknown;
}

/** Stands in a difference for a value that is not there. */
export const ABSENT = '(absent)';

/** Counts comparisons and collects differences. A comparison is one number, string or null against another. */
export class Comparison {
  comparisons = 0;
  readonly differences: Difference[] = [];
  readonly #paths = new Set<string>();

  /**
   * Compares two JSON values in depth. Arrays are compared element by element. Each element that
   * only one array has is one difference, and so is each key that only one of two objects has.
   */
  compare(expected: unknown, got: unknown, path: string): void {
    if (Array.isArray(expected) && Array.isArray(got)) this.#compareArrays(expected, got, path);
    else if (isObject(expected) && isObject(got)) this.#compareObjects(expected, got, path);
    else {
      this.comparisons++;
      if (expected !== got) this.differ(expected, got, path);
    }
  }

  /**
   * Compares every field that was recorded. A field that was observed but not recorded is left out:
   * the version of the trace may not have it. A field that was recorded but not observed is a
   * difference.
   */
  compareRecorded(expected: object, got: object, path: string): void {
    const values = got as Record<string, unknown>;
    for (const [key, value] of Object.entries(expected)) {
      this.compare(value, Object.hasOwn(values, key) ? values[key] : ABSENT, `${path}.${key}`);
    }
  }

  /** Notes a difference, once for each path. */
  differ(expected: unknown, got: unknown, path: string): void {
    if (this.#paths.has(path)) return;
    this.#paths.add(path);
    this.differences.push({ path, expected, got });
  }

  #compareArrays(expected: readonly unknown[], got: readonly unknown[], path: string): void {
    const length = Math.max(expected.length, got.length);
    if (length === 0) this.comparisons++;
    for (let i = 0; i < length; i++) {
      const value = i < expected.length ? expected[i] : ABSENT;
      this.compare(value, i < got.length ? got[i] : ABSENT, `${path}[${i}]`);
    }
  }

  #compareObjects(expected: Record<string, unknown>, got: Record<string, unknown>, path: string): void {
    const keys = new Set([...Object.keys(expected), ...Object.keys(got)]);
    if (keys.size === 0) this.comparisons++;
    for (const key of keys) {
      const value = Object.hasOwn(expected, key) ? expected[key] : ABSENT;
      this.compare(value, Object.hasOwn(got, key) ? got[key] : ABSENT, `${path}.${key}`);
    }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
