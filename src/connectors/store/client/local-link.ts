import type { BlockArena } from '../../../transfer/block-arena.js';
import type { BlockStore } from '../stores/block-store.js';
import type { AnswerMessage, JobMessage } from './messages.js';
import { StoreJobs } from './store-jobs.js';
import { GRACE_MS, type StoreLink } from './store-link.js';

/**
 * The way to a store of the user's own, which is called on the thread of the engine. Its answers wait here until somebody
 * looks for them. A job that is given up is over at once, whatever its store goes on doing.
 */
export class LocalLink implements StoreLink {
  readonly exit: Promise<void>;
  readonly #jobs: StoreJobs;
  readonly #answers: AnswerMessage[] = [];
  #isReady = false;
  #ended!: () => void;

  /** @param staging undefined if only `has` is asked */
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
    // A store that hangs keeps nobody from ending.
    const timer = setTimeout(end, GRACE_MS);
    this.#jobs.close().then(end, end);
  }

  release(): void {}
}
