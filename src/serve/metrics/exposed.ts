import type { Registry } from 'prom-client';
import type { Buckets } from './buckets.js';

/** The labels of one value. */
export type Labels = Readonly<Record<string, string>>;

/** A value with its labels, besides those that every value has. */
export type Sample = readonly [labels: Labels, value: number];

/** What prom-client asks a metric for. */
interface MetricValue {
  readonly value: number;
  readonly labels: Labels;
  readonly metricName?: string;
}

/**
 * Metrics whose values are read when somebody asks for them: the engine counts already, and counting again for each token would cost
 * more than the token. prom-client writes them, with the labels that all of them have.
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

  /** A count that only grows. `_total` is added to its name, as clients of Python do. */
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
