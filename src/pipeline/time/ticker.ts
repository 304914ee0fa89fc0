/** Milliseconds between two ticks: waits end at most so much later than they should. */
const TICK_MS = 50;

/** Calls a function from time to time. Keeps no process alive. */
export class Ticker {
  readonly #tick: () => void;
  #timer: NodeJS.Timeout | null = null;

  constructor(tick: () => void) {
    this.#tick = tick;
  }

  get isRunning(): boolean {
    return this.#timer !== null;
  }

  /** Begins to tick; nothing happens if it ticks already. */
  start(): void {
    this.#timer ??= setInterval(this.#tick, TICK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer ?? undefined);
    this.#timer = null;
  }
}
