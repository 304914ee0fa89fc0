/** Milliseconds between two ticks: waits end at most so much later than they should. */
const TICK_MS = 50;

/** Calls a function from time to time, and keeps the process alive while somebody waits for what it does. */
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

  /** To be called when somebody begins to wait. Nothing happens while it does not tick. */
  look(): void {
    if (this.#isAwaited()) this.#timer?.ref();
    else this.#timer?.unref();
  }

  stop(): void {
    clearInterval(this.#timer ?? undefined);
    this.#timer = null;
  }
}
