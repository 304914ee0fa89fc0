import { type ChildProcess, spawn } from 'node:child_process';
import { Deferred } from '../deferred.js';
import { BlockstepError, ERROR_CODES, type ErrorCode } from '../errors.js';
import { type Answer, LOADED, type Order } from './aside-order.js';
import { scriptArguments, scriptUrl } from './script-file.js';

/** A function of a module that is run aside. Its input and its answer are copied, as `structuredClone` does. */
export interface AsideTask {
  /** `import.meta.url` of a file beside the module. */
  readonly from: string;
  /** The module, without an extension. What it keeps in variables is kept from task to task. */
  readonly module: string;
  /** The exported function, which takes the input. What it throws, the caller gets: the message, and the code of blockstep's own errors. */
  readonly name: string;
}

/** How much a task may take. */
export interface AsideLimits {
  /** Milliseconds of running. */
  readonly timeMs: number;
  /** Most characters of a text that it answers with; more are refused. Default: any number. */
  readonly maxOutput?: number;
}

/** What is thrown for a task that was broken off. The message says what the task did, as "it took more than 50 ms". */
export class AsideLimitError extends Error {
  /** What there was too much of. A process that ends by itself has run out of memory. */
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

/** MiB of JavaScript's objects in such a process. A task that wants more is broken off. */
const HEAP_MB = 512;
/** Most tasks that wait. */
const MOST_WAITING = 4096;
/** Milliseconds in which a process is started and a module loaded, which is none of a task's own time. */
const LOAD_MS = 60_000;

/** By the file beside it and the name: the URL of a module. */
const urls = new Map<string, string>();

/**
 * A process aside of the event loop, for work whose length somebody else decides: templates, schemas and texts of strangers. It is started by
 * the first task, and keeps no process alive but while it works. Tasks run one at a time, in their order. One that takes too long, or too
 * much memory, ends with its process, and the next one has a new one. A thread would not do: one that runs out of memory ends all others.
 *
 * Whoever's tasks must not wait for each other's have an Aside each.
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
   * @param signal takes it out of the line, while it waits
   * @throws by rejection AsideLimitError; what the task threw; the reason of the signal; ERR_BLOCKSTEP_OVERLOADED while too many wait
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

  /** Ends the process. Tasks that have not ended are rejected; a later task has a new process. */
  close(): void {
    const error = new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the process that was to do this was ended');
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
      // What cannot be copied.
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

  /** Takes the task that runs out, to be settled. */
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

/** The one that all share whose tasks take milliseconds, unless a stranger makes them long: they wait for each other. */
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
