// Child processes that are restarted after a kill.
import { type ChildProcess, fork } from 'node:child_process';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { PATIENCE_MS } from '../../support/waiting.js';
import type { ChildReport, ChildSetup, Command, Reply } from './protocol.js';

/** How long anything may take before it counts as a hang, in milliseconds. */
export const HANG_MS = PATIENCE_MS;

/** A child process, which is started again after it was killed. */
export class Child {
  readonly setup: ChildSetup;
  #process: ChildProcess | null = null;
  #next = 0;
  readonly #reports = new Map<number, (report: ChildReport | null) => void>();

  constructor(setup: ChildSetup) {
    this.setup = setup;
  }

  /** Starts the process. @returns when its role has begun */
  start(): Promise<void> {
    const execArgv = scriptArguments(import.meta.url, 'child');
    const program = execArgv.pop() as string;
    const child = fork(program, [JSON.stringify(this.setup)], { execArgv, stdio: 'inherit' });
    this.#process = child;
    const ready = new Promise<void>((resolve, reject) => {
      child.on('message', (reply: Reply) => {
        if (reply.kind === 'ready') resolve();
        else this.#answer(reply.number, reply.report);
      });
      child.on('exit', (code, signal) => {
        if (this.#process === child) this.#process = null;
        for (const number of [...this.#reports.keys()]) this.#answer(number, null);
        reject(new Error(`the child ${this.setup.role} ended: ${code ?? signal}`));
      });
    });
    ready.catch(() => {});
    return ready;
  }

  /** Its state; null if it is not running. */
  report(): Promise<ChildReport | null> {
    const child = this.#process;
    if (child?.connected !== true) return Promise.resolve(null);
    const number = ++this.#next;
    return new Promise((resolve) => {
      this.#reports.set(number, resolve);
      child.send({ kind: 'report', number } satisfies Command, () => {});
    });
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === null) return;
    const over = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await over;
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process?.kill(signal);
  }

  #answer(number: number, report: ChildReport | null): void {
    const answer = this.#reports.get(number);
    this.#reports.delete(number);
    answer?.(report);
  }
}

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

/** The value of a promise. @throws if it takes so long that it must be a hang */
export async function inTime<T>(what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const hang = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} hangs`)), HANG_MS);
  });
  try {
    return await Promise.race([promise, hang]);
  } finally {
    clearTimeout(timer);
  }
}
