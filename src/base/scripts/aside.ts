import { type ChildProcess, spawn } from 'node:child_process';
import { Deferred } from '../deferred.js';
import { BlockstepError, ERROR_CODES, type ErrorCode } from '../errors.js';
import { type Answer, LOADED, type Order } from './aside-order.js';
import { scriptArguments, scriptUrl } from './script-file.js';

/**
 * A function of a module that runs in another process. Its input and its answer are copied, as by
 * `structuredClone`.
 */
export interface AsideTask {
  /** `import.meta.url` of a file beside the module. */
  readonly from: string;
  /** The module, without an extension. Its variables keep their values from task to task. */
  readonly module: string;
  /**
   * The exported function, which receives the input. The caller gets the message of its errors, and
   * the code of blockstep's own errors.
   */
  readonly name: string;
}

/** The limits of a task. */
export interface AsideLimits {
  /** Milliseconds of running. */
  readonly timeMs: number;
  /** Most characters of a text answer; longer answers are refused. Default: any number. */
  readonly maxOutput?: number;
}

/** Thrown for an aborted task. The message describes the task, as "it took more than 50 ms". */
export class AsideLimitError extends Error {
  /** The exceeded limit. A process that ends by itself has run out of memory. */
  readonly limit: 'time' | 'memory' | 'output';

  constructor(limit: AsideLimitError['limit'], message: string) {
    super(message);
    this.name = 'AsideLimitError';
    this.limit = limit;
  }
}

interface Waiting {
  readonly order: Order;
  readonly timeMs: number;
  readonly answer: Deferred<unknown>;
}

/** Heap of such a process, in MiB. A task that needs more is aborted. */
const HEAP_MB = 512;
/** Most waiting tasks. */
const MOST_WAITING = 4096;
/**
 * Milliseconds for starting a process and loading a module. They do not count as a task's own time.
 */
const LOAD_MS = 60_000;

/** URLs of modules, by the neighbouring file and the name. */
const urls = new Map<string, string>();

/**
 * A process beside the event loop, for work whose length strangers decide: their templates, schemas
 * and texts. The first task starts it, and it keeps its parent alive only while it works. Tasks run
 * one at a time, in their order. A task that takes too long, or too much memory, ends with its
 * process, and the next task gets a new process. A thread would not do, because a thread that runs
 * out of memory ends all others.
 *
 * Tasks that must not wait for each other need an Aside each.
 */
export class Aside {
  #child: ChildProcess | null = null;
  /** The modules that the process has loaded. */
  readonly #loaded = new Set<string>();
  #running: Waiting | null = null;
  #timer: NodeJS.Timeout | null = null;
  readonly #waiting: Waiting[] = [];

  /**
   * Runs a task.
   * @param signal removes the task from the queue, while it waits
   * @throws by rejection AsideLimitError; the task's own error; the reason of the signal;
   * ERR_BLOCKSTEP_OVERLOADED while too many tasks wait
   */
  async run<Input, Output>(
    task: AsideTask,
    input: Input,
    { timeMs, maxOutput = Number.POSITIVE_INFINITY }: AsideLimits,
    signal: AbortSignal | null = null,
  ): Promise<Output> {
    signal?.throwIfAborted();
    if (this.#waiting.length >= MOST_WAITING)
      throw new BlockstepError('ERR_BLOCKSTEP_OVERLOADED', `${MOST_WAITING} texts wait to be read`, {
        retryAfterMs: 1000,
      });
    const order = { module: urlOf(task), name: task.name, input, maxOutput };
    const waiting = { order, timeMs, answer: new Deferred<unknown>() };
    this.#waiting.push(waiting);
    signal?.addEventListener('abort', () => this.#leave(waiting, signal), { once: true });
    this.#next();
    return (await waiting.answer.promise) as Output;
  }

  /** Ends the process. Unfinished tasks are rejected. A later task gets a new process. */
  close(): void {
    const error = new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the process for this task was ended');
    for (const { answer } of this.#waiting.splice(0)) answer.reject(error);
    this.#end(error);
  }

  #leave(waiting: Waiting, { reason }: AbortSignal): void {
    const index = this.#waiting.indexOf(waiting);
    if (index < 0) return;
    this.#waiting.splice(index, 1);
    waiting.answer.reject(reason);
  }

  #next(): void {
    if (this.#running !== null) return;
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#child?.channel?.unref();
      return;
    }
    this.#running = next;
    this.#child ??= this.#start();
    this.#child.channel?.ref();
    try {
      this.#child.send(next.order, (error) => {
        if (error !== null) this.#fail(next, error);
      });
      this.#watch(this.#loaded.has(next.order.module) ? next.timeMs : LOAD_MS);
    } catch (error) {
      // The input cannot be copied.
      this.#fail(next, error);
    }
  }

  #watch(timeMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#end(new AsideLimitError('time', `it took more than ${timeMs} ms`));
      this.#next();
    }, timeMs);
  }

  #start(): ChildProcess {
    const script = scriptArguments(import.meta.url, 'aside-process');
    const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MB}`, ...script], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
    });
    child.unref();
    child.on('message', (answer: Answer | typeof LOADED) => {
      const running = this.#running;
      if (child !== this.#child || running === null) return;
      if (answer === LOADED) {
        this.#loaded.add(running.order.module);
        this.#watch(running.timeMs);
        return;
      }
      const { resolve, reject } = this.#settle();
      if ('output' in answer) resolve(answer.output);
      else reject(thrown(answer));
      this.#next();
    });
    const gone = (error: Error): void => {
      if (child !== this.#child) return;
      this.#end(error);
      this.#next();
    };
    child.on('error', gone);
    child.on('exit', (code, signal) => {
      const how = signal ?? `exit code ${code}`;
      gone(new AsideLimitError('memory', `it ended its process (${how}), which may have ${HEAP_MB} MiB`));
    });
    return child;
  }

  #fail(waiting: Waiting, error: unknown): void {
    if (waiting !== this.#running) return;
    this.#settle().reject(error);
    this.#next();
  }

  /** Removes the running task, so that the caller can settle it. */
  #settle(): Deferred<unknown> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const { answer } = this.#running as Waiting;
    this.#running = null;
    return answer;
  }

  #end(error: unknown): void {
    const child = this.#child;
    this.#child = null;
    this.#loaded.clear();
    child?.kill('SIGKILL');
    if (this.#running !== null) this.#settle().reject(error);
  }
}

/**
 * Shared by all tasks that take milliseconds, unless a stranger prolongs them. They wait for each
 * other.
 */
export const sharedAside = new Aside();

function urlOf({ from, module }: AsideTask): string {
  const key = `${from} ${module}`;
  let url = urls.get(key);
  if (url === undefined) {
    url = scriptUrl(from, module).href;
    urls.set(key, url);
  }
  return url;
}

function thrown(answer: Exclude<Answer, { output: unknown }>): Error {
  if (answer.isTooLong) return new AsideLimitError('output', answer.message);
  if (answer.code !== undefined && Object.hasOwn(ERROR_CODES, answer.code))
    return new BlockstepError(answer.code as ErrorCode, answer.message);
  const error = new Error(answer.message);
  error.name = answer.name;
  return error;
}
