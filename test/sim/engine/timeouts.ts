import type { Seen, Sight } from '../audit/facts.js';
import type { Stage } from './stage.js';

/** How long requests have stood in the queue, and how long they have taken as a whole, as their clients would count it. */
export class Timeouts {
  readonly #stage: Stage;
  /**
   * For each request that does not run: its stay in the queue, and the time since which that lasts.
   */
  readonly #queued = new Map<number, { stay: string; since: number }>();
  /** When the time of each request that has one is over. */
  readonly #due = new Map<number, number>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  submitted(handle: number, timeoutMs: number | undefined): void {
    if (timeoutMs !== undefined) this.#due.set(handle, this.#stage.now + timeoutMs);
  }

  watch(sight: Sight): void {
    for (const seen of sight.requests) {
      const { handle } = seen;
      const stay = this.#stayOf(seen);
      if (stay === null) this.#queued.delete(handle);
      else if (this.#queued.get(handle)?.stay !== stay) {
        this.#queued.set(handle, { stay, since: this.#stage.now });
      }
    }
    const live = new Set(sight.requests.map(({ handle }) => handle));
    for (const handles of [this.#queued, this.#due])
      for (const handle of handles.keys()) if (!live.has(handle)) handles.delete(handle);
  }

  /** Requests that have taken too long for something. */
  late(): number[] {
    const { now, setup } = this.#stage;
    const { queue = 0 } = setup.engine.deadlines || {};
    const queued = [...this.#queued].filter(([, { since }]) => queue > 0 && now >= since + queue);
    const whole = [...this.#due].filter(([, due]) => now >= due);
    return [...queued, ...whole].map(([handle]) => handle);
  }

  /**
   * A request that was preempted, or whose session goes on with a chunk, enters the queue again.
   */
  #stayOf({ handle, status, container }: Seen): string | null {
    if (container === 'running' || status === 'WAITING_FOR_STREAMING_REQ') return null;
    const request = this.#stage.engine.scheduler.getByHandle(handle);
    return `${request?.numPreemptions} ${request?.session?.numChunks}`;
  }
}
