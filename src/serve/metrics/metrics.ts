import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Registry } from 'prom-client';
import { type ChannelPayloads, channels } from '../../base/channels.js';
import type { Engine } from '../../engine/engine.js';
import { BOUNDS, Buckets } from './buckets.js';
import { exposeEngine } from './engine-metrics.js';
import { Exposed, type Sample } from './exposed.js';
import { RequestMetrics } from './request-metrics.js';

const NS_PER_SECOND = 1e9;
/** How often the delay is sampled. */
const RESOLUTION_MS = 10;

/** The metrics of a server, for Prometheus: vLLM's names, labels and buckets, and some of our own. */
export class Metrics {
  readonly requests: RequestMetrics;
  readonly #registry = new Registry();
  readonly #iterations = new Buckets(BOUNDS.iteration);
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
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
    this.#delay.enable();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** The text that Prometheus reads. */
  read(): Promise<string> {
    return this.#registry.metrics();
  }

  /** Ends the timer and the subscription that it has. */
  close(): void {
    this.#delay.disable();
    channels.engineStep.unsubscribe(this.#onStep);
  }

  #delays(): Sample[] {
    const [p50, p99] = [50, 99].map((percent) => lateBy(this.#delay.percentile(percent)));
    return [
      [{ quantile: '0.5' }, p50],
      [{ quantile: '0.99' }, p99],
      [{ quantile: '1' }, lateBy(this.#delay.max)],
    ];
  }
}

/** Seconds by which a sample of Node's histogram came late. What it records is the time between two samples. */
function lateBy(betweenNs: number): number {
  return Math.max(0, betweenNs / NS_PER_SECOND - RESOLUTION_MS / 1000);
}
