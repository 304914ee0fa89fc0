import { Registry } from 'prom-client';
import { type ChannelPayloads, channels } from '../../base/channels.js';
import { EventLoopDelay } from '../../base/event-loop-delay.js';
import type { Engine } from '../../engine/engine.js';
import { BOUNDS, Buckets } from './buckets.js';
import { exposeEngine } from './engine-metrics.js';
import { Exposed, type Sample } from './exposed.js';
import { RequestMetrics } from './request-metrics.js';

const MS_PER_SECOND = 1000;

/**
 * The metrics of a server for Prometheus: vLLM's names, labels and buckets, and some of blockstep's
 * own.
 */
export class Metrics {
  readonly requests: RequestMetrics;
  readonly #registry = new Registry();
  readonly #iterations = new Buckets(BOUNDS.iteration);
  readonly #delay = new EventLoopDelay();
  readonly #onStep: (step: ChannelPayloads['blockstep:engine:step']) => void;

  constructor(engine: Engine, model: string) {
    const exposed = new Exposed(this.#registry, { model_name: model, engine: '0' });
    exposeEngine(exposed, engine);
    this.requests = new RequestMetrics(engine.scheduler.config.maxModelLen);
    this.requests.expose(exposed);
    exposed.histogram('vllm:iteration_tokens_total', 'Tokens that a step computed.', this.#iterations);
    exposed.gauge('blockstep:event_loop_delay_seconds', 'How late the event loop is.', () => this.#delays());
    this.#onStep = ({ engine: number, totalTokens }) => {
      if (number === engine.number) this.#iterations.observe(totalTokens);
    };
    channels.engineStep.subscribe(this.#onStep);
    this.#delay.start();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** The metrics in Prometheus's text format. */
  read(): Promise<string> {
    return this.#registry.metrics();
  }

  /** Stops the timer and the subscription of the metrics. */
  close(): void {
    this.#delay.stop();
    channels.engineStep.unsubscribe(this.#onStep);
  }

  #delays(): Sample[] {
    const { p50, p99, max } = this.#delay.read();
    return [
      [{ quantile: '0.5' }, seconds(p50)],
      [{ quantile: '0.99' }, seconds(p99)],
      [{ quantile: '1' }, seconds(max)],
    ];
  }
}

/** A delay that has not been measured yet counts as 0. */
function seconds(ms: number | null): number {
  return (ms ?? 0) / MS_PER_SECOND;
}
