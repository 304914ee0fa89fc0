import type { BlockArena } from '../../../transfer/block-arena.js';
import type { BlockStore } from '../stores/block-store.js';
import type { AnswerMessage, JobMessage } from './messages.js';
import { StoreJobs } from './store-jobs.js';
import { GRACE_MS, type StoreLink } from './store-link.js';

/**
 * The link to a user's own store, which is called on the engine's thread. Answers wait here until
 * they are received. A job that is given up is over at once, whatever the store still does.
 */
export class LocalLink implements StoreLink {
  readonly exit: Promise<void>;
  readonly #jobs: StoreJobs;
  readonly #answers: AnswerMessage[] = [];
  #isReady = false;
  #ended!: () => void;

  /** @param staging undefined if only `has` is used */
  constructor(open: () => Promise<BlockStore>, staging: BlockArena | undefined) {
    this.exit = new Promise((resolve) => {
      this.#ended = resolve;
    });
    this.#jobs = new StoreJobs(open, staging ?? null, (answer) => this.#answers.push(answer));
    void this.#jobs.open().then(() => {
      this.#isReady = true;
    });
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  send(job: JobMessage): void {
    this.#jobs.run(job);
  }

  receive(): AnswerMessage | null {
    return this.#answers.shift() ?? null;
  }

  giveUp(job: number): boolean {
    return this.#jobs.giveUp(job);
  }

  close(): void {
    const end = (): void => {
      clearTimeout(timer);
      this.#jobs.giveUpAll();
      this.#ended();
    };
    // A store that hangs must not prevent the end.
    const timer = setTimeout(end, GRACE_MS);
    this.#jobs.close().then(end, end);
  }

  release(): void {}
}
