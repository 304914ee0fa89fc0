// A child process, from its parent's side.
import { type ChildProcess, fork } from 'node:child_process';
import { scriptArguments } from '../../../../src/base/scripts/script-file.js';
import { PATIENCE_MS } from '../../../support/waiting.js';
import type { ChildReport, ChildResult, ChildSetup, Command, Params, Reply } from './protocol.js';

/** How long anything may take before it counts as a hang, in milliseconds. */
export const HANG_MS = PATIENCE_MS;

/** The end of a request whose process was killed. */
const KILLED: ChildResult = { tokens: [], finishReason: 'killed', transferParams: null, error: 'killed' };

/** A child process with an engine, which is started again after it was killed. */
export class Child {
  readonly setup: ChildSetup;
  /** Times that it was killed or stopped so far, and whether it is stopped now. */
  numDisturbed = 0;
  isStopped = false;
  #process: ChildProcess | null = null;
  #ready: Promise<void> = Promise.resolve();
  #next = 0;
  readonly #results = new Map<number, (result: ChildResult) => void>();
  readonly #reports = new Map<number, (report: ChildReport | null) => void>();

  constructor(setup: ChildSetup) {
    this.setup = setup;
  }

  get isRunning(): boolean {
    return this.#process !== null;
  }

  /** Starts the process. */
  start(): Promise<void> {
    const execArgv = scriptArguments(import.meta.url, 'child');
    const program = execArgv.pop() as string;
    const child = fork(program, [JSON.stringify(this.setup)], { execArgv, stdio: 'inherit' });
    this.#process = child;
    this.#ready = new Promise((resolve, reject) => {
      child.on('message', (reply: Reply) => {
        if (reply.kind === 'ready') resolve();
        else if (reply.kind === 'result') remove(this.#results, reply.number)?.(reply);
        else remove(this.#reports, reply.number)?.(reply.report);
      });
      child.on('exit', (code, signal) => {
        if (this.#process === child) this.#process = null;
        this.#giveUp();
        reject(new Error(`the child ended: ${code ?? signal}`));
      });
    });
    this.#ready.catch(() => {});
    return this.#ready;
  }

  async submit(prompt: Int32Array, maxTokens: number, transferParams: Params): Promise<ChildResult> {
    const number = ++this.#next;
    return await new Promise((resolve) => {
      this.#results.set(number, resolve);
      if (!this.#send({ kind: 'submit', number, prompt: [...prompt], maxTokens, transferParams })) {
        this.#results.delete(number);
        resolve(KILLED);
      }
    });
  }

  /** Aborts the request that was submitted last. */
  abortLast(): void {
    this.#send({ kind: 'abort', number: this.#next });
  }

  /** The state of the engine; null if it is not running. */
  async report(): Promise<ChildReport | null> {
    const number = ++this.#next;
    return await new Promise((resolve) => {
      this.#reports.set(number, resolve);
      if (!this.#send({ kind: 'report', number })) {
        this.#reports.delete(number);
        resolve(null);
      }
    });
  }

  /** `kill -9`; every request of the process counts as killed. */
  async kill(): Promise<void> {
    this.numDisturbed++;
    this.isStopped = false;
    const child = this.#process;
    if (child === null) return;
    const over = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await over;
  }

  /** `SIGSTOP`. */
  stop(): void {
    this.numDisturbed++;
    this.isStopped = true;
    this.#process?.kill('SIGSTOP');
  }

  /** `SIGCONT`. */
  resume(): void {
    this.isStopped = false;
    this.#process?.kill('SIGCONT');
  }

  /** Shuts the engine down, and waits for the end of the process. */
  async end(): Promise<void> {
    const child = this.#process;
    if (child === null) return;
    const over = new Promise((resolve) => child.once('exit', resolve));
    this.#send({ kind: 'end' });
    await Promise.race([over, later(10_000).then(() => child.kill('SIGKILL'))]);
    await over;
  }

  #send(command: Command): boolean {
    const child = this.#process;
    if (child === null || !child.connected) return false;
    child.send(command, () => {});
    return true;
  }

  #giveUp(): void {
    for (const resolve of this.#results.values()) resolve(KILLED);
    for (const resolve of this.#reports.values()) resolve(null);
    this.#results.clear();
    this.#reports.clear();
  }
}

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

function remove<T>(map: Map<number, T>, key: number): T | undefined {
  const value = map.get(key);
  map.delete(key);
  return value;
}
