import type { Registry } from 'prom-client';
import type { Buckets } from './buckets.js';

/** The labels of one value. */
export type Labels = Readonly<Record<string, string>>;

/** A value with its labels, besides the labels common to all values. */
export type Sample = readonly [labels: Labels, value: number];

/** The value that prom-client requests of a metric. */
interface MetricValue {
  readonly value: number;
  readonly labels: Labels;
  readonly metricName?: string;
}

/**
 * Metrics whose values are read at the time of a scrape. The engine counts already, and counting
 * again for each token would cost more than the token. prom-client writes the values, with the
 * common labels.
 */
export class Exposed {
  readonly #registry: Registry;
  readonly #labels: Labels;

  constructor(registry: Registry, labels: Labels) {
    this.#registry = registry;
    this.#labels = labels;
  }

  gauge(name: string, help: string, read: () => readonly Sample[] | number): void {
    this.#add(name, help, 'gauge', () => this.#values(read()));
  }

  /** Adds a counter. `_total` is appended to its name, as Python clients do. */
  counter(name: string, help: string, read: () => readonly Sample[] | number): void {
    this.#add(`${name}_total`, help, 'counter', () => this.#values(read()));
  }

  histogram(name: string, help: string, buckets: Buckets): void {
    const labels = this.#labels;
    this.#add(name, help, 'histogram', () => {
      const counts = buckets.cumulated();
      const values = counts.map((value, i) => ({
        value,
        labels: { ...labels, le: i < buckets.bounds.length ? `${buckets.bounds[i]}` : '+Inf' },
        metricName: `${name}_bucket`,
      }));
      return [
        ...values,
        { value: buckets.sum, labels, metricName: `${name}_sum` },
        { value: counts[counts.length - 1], labels, metricName: `${name}_count` },
      ];
    });
  }

  #values(read: readonly Sample[] | number): MetricValue[] {
    const samples: readonly Sample[] = typeof read === 'number' ? [[{}, read]] : read;
    return samples.map(([labels, value]) => ({ value, labels: { ...this.#labels, ...labels } }));
  }

  #add(name: string, help: string, type: string, values: () => MetricValue[]): void {
    const get = (): Promise<object> =>
      Promise.resolve({ name, help, type, values: values(), aggregator: 'sum' });
    const reset = (): void => {};
    this.#registry.registerMetric({ name, help, type, get, reset } as never);
  }
}
