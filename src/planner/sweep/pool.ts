import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { BlockstepError, type ErrorCode } from '../../base/errors.js';
import { startThread } from '../../base/scripts/script-file.js';
import type { Shared, Task, TaskResult } from './task.js';
import type { Answer } from './worker.js';

/** A waiting or running task. */
interface Order {
  readonly task: Task;
  readonly resolve: (result: TaskResult) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Threads that simulate engines of one trace. The results do not depend on the number of threads.
 */
export class Pool {
  readonly #workers: Worker[];
  readonly #idle: Worker[];
  readonly #waiting: Order[] = [];
  readonly #running = new Map<Worker, Order>();
  #failure: unknown = null;

  /** @param threads at least 1 */
  constructor(shared: Shared, threads: number) {
    this.#workers = Array.from({ length: threads }, () =>
      startThread(import.meta.url, 'worker', { workerData: shared }),
    );
    this.#idle = [...this.#workers];
    for (const worker of this.#workers) {
      worker.on('message', (answer: Answer) => this.#receive(worker, answer));
      worker.on('error', (error) => this.fail(error));
    }
  }

  get threads(): number {
    return this.#workers.length;
  }

  /**
   * Runs a task as soon as a thread is free, in the order of the calls.
   * @throws by rejection the errors of the task
   */
  run(task: Task): Promise<TaskResult> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ task, resolve, reject });
      this.#begin();
    });
  }

  /** Rejects all present and future tasks. */
  fail(error: unknown): void {
    this.#failure ??= error;
    for (const order of [...this.#running.values(), ...this.#waiting.splice(0)]) order.reject(this.#failure);
    this.#running.clear();
  }

  /** Ends the threads, even in the middle of a task. */
  async close(): Promise<void> {
    this.fail(new Error('the pool is closed'));
    await Promise.all(
      this.#workers.map(async (worker) => {
        const ended = once(worker, 'exit');
        await worker.terminate();
        await ended.catch(() => {});
      }),
    );
  }

  #begin(): void {
    if (this.#failure !== null) {
      for (const order of this.#waiting.splice(0)) order.reject(this.#failure);
      return;
    }
    while (this.#waiting.length > 0 && this.#idle.length > 0) {
      const worker = this.#idle.pop()!;
      const order = this.#waiting.shift()!;
      this.#running.set(worker, order);
      // A task keeps the process alive.
      worker.ref();
      worker.postMessage(order.task);
    }
  }

  #receive(worker: Worker, answer: Answer): void {
    const order = this.#running.get(worker);
    this.#running.delete(worker);
    worker.unref();
    this.#idle.push(worker);
    if ('result' in answer) order?.resolve(answer.result);
    else order?.reject(errorOf(answer));
    this.#begin();
  }
}

function errorOf({ code, message }: { code: string | null; message: string }): Error {
  return code === null ? new Error(message) : new BlockstepError(code as ErrorCode, message);
}
