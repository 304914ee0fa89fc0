import { counted, decimal, duration, figure, grouped } from '../../../report/markup/figures.js';
import type { Figures, Sample } from '../answers.js';
import { LineChart, type Point } from './chart.js';
import { element, say } from './elements.js';

/** Rates cover the last two seconds; the prefix hit rate covers the last minute. */
const RATE_MS = 2000;
const MINUTE_MS = 60_000;
const KEPT_MS = 300_000;

/**
 * Limits from which a figure is marked as bad: the delay of the event loop in milliseconds, and the
 * share of blocks in use.
 */
const LATE_MS = 100;
const FULL = 0.95;

/** The figures of the page: tiles, charts, and the health of the server. */
export class FiguresView {
  #samples: Sample[] = [];
  readonly #latency = new LineChart('latency', 2, 'log');
  readonly #rate = new LineChart('rate', 1);
  readonly #requests = new LineChart('requests', 3);
  readonly #usage = new LineChart('usage', 1, 100);

  /** The time of the newest sample; 0 before the first one. */
  get newest(): number {
    return this.#samples.at(-1)?.time ?? 0;
  }

  show(figures: Figures): void {
    const last = figures.samples.at(-1) ?? this.#samples.at(-1);
    const from = (last?.time ?? 0) - KEPT_MS;
    this.#samples = [...this.#samples, ...figures.samples].filter(({ time }) => time >= from);
    document.title = `${figures.model} – blockstep`;
    say('model', figures.model);
    say('version', figures.version);
    this.#showState(figures);
    if (last === undefined) return;
    this.#showTiles(figures, last);
    this.#showCharts();
  }

  /** Shows the health of the server in a word, with the reasons. */
  showHealth(word: string, why: string): void {
    say('health-word', word);
    say('health-reasons', why);
    // An empty text would still take up space.
    element('health-reasons', HTMLElement).hidden = why === '';
    element('health', HTMLElement).classList.toggle('good', word === 'healthy');
  }

  #showState(figures: Figures): void {
    const { reasons, sinceStepMs } = figures.health;
    const last = sinceStepMs === null ? 'no step yet' : `last step ${duration(Math.round(sinceStepMs))} ago`;
    this.showHealth(stateOf(figures), reasons.length > 0 ? reasons.join('; ') : last);
  }

  #showTiles({ step, present, usableBlocks }: Figures, last: Sample): void {
    const ms = (value: number | null): string => (value === null ? '–' : duration(value));
    say('step', ms(step.p50));
    say('step-detail', `p99 ${ms(step.p99)}`);
    const rate = this.#ratesOf(this.#samples.at(-1) as Sample);
    say('tokens', `${figure(Number((rate.tokens ?? 0).toPrecision(3)))} /s`);
    say('tokens-detail', `${grouped(last.generated)} since the start`);
    say('running', grouped(last.running));
    say('waiting', grouped(last.waiting));
    say('waiting-detail', `${grouped(last.loading)} loading KV`);
    const minute = this.#samples.find(({ time }) => time >= last.time - MINUTE_MS) ?? last;
    say('hits', share(last.hits - minute.hits, last.queries - minute.queries));
    say('hits-detail', `${share(last.hits, last.queries)} since the start`);
    say('kv', `${decimal(100 * last.usage)} %`);
    const isFull = mark('kv', last.usage >= FULL);
    const recent = this.#samples.filter(({ time }) => time >= last.time - 10_000);
    const late = Math.max(0, ...recent.map(({ loopDelayMs }) => Math.round(10 * loopDelayMs) / 10));
    say('loop', duration(late));
    const isLate = mark('loop', late >= LATE_MS);
    say('loop-detail', `the longest in 10 s${isLate ? ': too late' : ''}`);
    if (present === null) return;
    say('running-detail', `${counted(present.preemptions, 'preemption')} so far`);
    say(
      'kv-detail',
      `${grouped(usableBlocks - present.freeBlocks)} of ${counted(usableBlocks, 'block')}${isFull ? ': nearly full' : ''}`,
    );
    const uses = Object.values(present.outstanding);
    const oldest = Math.max(...uses.map(({ oldestMs }) => oldestMs));
    const count = uses.reduce((sum, use) => sum + use.count, 0);
    say('transfers', grouped(count));
    const age = count === 0 ? '' : `oldest ${duration(Math.round(oldest))}, `;
    say('transfers-detail', `${age}${grouped(present.quarantinedBlocks)} blocks quarantined`);
    const anomalies = Object.entries(present.anomalies).filter(([, times]) => times > 0);
    mark('transfers', present.quarantinedBlocks > 0);
    mark('anomalies', anomalies.length > 0);
    say('anomalies', anomalies.map(([reason, times]) => `${reason} ${grouped(times)}`).join(', ') || 'none');
  }

  #showCharts(): void {
    const points = (values: (sample: Sample) => (number | null)[]): Point[] =>
      this.#samples.map((sample) => [sample.time, ...values(sample)]);
    this.#latency.show(points(({ p50, p99 }) => [p50, p99]));
    let at = 0;
    const rates = this.#samples.map((sample): Point => {
      while (this.#samples[at].time < sample.time - RATE_MS) at++;
      return [sample.time, rateBetween(this.#samples[at], sample)];
    });
    this.#rate.show(rates);
    this.#requests.show(points(({ running, waiting, loading }) => [running, waiting, loading]));
    this.#usage.show(points(({ usage }) => [100 * usage]));
  }

  #ratesOf(last: Sample): { tokens: number | null } {
    const first = this.#samples.find(({ time }) => time >= last.time - RATE_MS) ?? last;
    return { tokens: rateBetween(first, last) };
  }
}

/** Marks a bad figure by its colour, and returns whether it is bad, since words say it too. */
function mark(id: string, isBad: boolean): boolean {
  element(id, HTMLElement).classList.toggle('bad', isBad);
  return isBad;
}

/** The health of a server, in a word. */
function stateOf({ health, paused }: Figures): string {
  if (health.state !== 'open') return health.state;
  if (!health.healthy) return 'unhealthy';
  if (paused === 'none') return 'healthy';
  return paused === 'all' ? 'paused' : 'admission paused';
}

/**
 * Generated tokens per second; null between a sample and itself. A smaller count belongs to another
 * engine.
 */
function rateBetween(first: Sample, last: Sample): number | null {
  if (last.time <= first.time || last.generated < first.generated) return null;
  return (1000 * (last.generated - first.generated)) / (last.time - first.time);
}

function share(part: number, whole: number): string {
  return whole <= 0 ? '–' : `${decimal((100 * part) / whole)} %`;
}
