/** Milliseconds between two ticks. Waits end at most this much too late. */
const TICK_MS = 50;

/** Calls a function regularly, and keeps the process alive while its result is awaited. */
export class Ticker {
  readonly #tick: () => void;
  readonly #isAwaited: () => boolean;
  #timer: NodeJS.Timeout | null = null;

  /** @param isAwaited whether the process must live until the next tick; asked after each tick, and by `look` */
  constructor(tick: () => void, isAwaited: () => boolean) {
    this.#tick = tick;
    this.#isAwaited = isAwaited;
  }

  get isRunning(): boolean {
    return this.#timer !== null;
  }

  /** Begins to tick; nothing happens if it ticks already. */
  start(): void {
    this.#timer ??= setInterval(() => {
      this.#tick();
      this.look();
    }, TICK_MS);
    this.look();
  }

  /** Call it when a wait begins. It has no effect while the ticker is stopped. */
  look(): void {
    if (this.#isAwaited()) this.#timer?.ref();
    else this.#timer?.unref();
  }

  stop(): void {
    clearInterval(this.#timer ?? undefined);
    this.#timer = null;
  }
}
