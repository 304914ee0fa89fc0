import { type ChildProcess, spawn } from 'node:child_process';
import {
  type Added,
  checkAdded,
  checkStepped,
  type Message,
  PROTOCOL,
  type Stepped,
  shorten,
} from './protocol.js';

/** Characters of one answer, at most. */
const LONGEST = 2 ** 26;

/** One scheduler that is measured, in a process of its own. Every call throws an Error that says what the peer did wrong. */
export class Peer {
  /** How it names itself; its command until it has. */
  name: string;
  /** Microseconds that went by from a message to its answer. */
  wallUs = 0;
  readonly #process: ChildProcess;
  readonly #timeoutMs: number;
  readonly #lines: string[] = [];
  #text = '';
  #complaint = '';
  #ended: string | null = null;
  #wake: () => void = () => {};

  constructor(command: string, timeoutMs: number) {
    this.name = command;
    this.#timeoutMs = timeoutMs;
    // A group of its own, so that what the shell has started ends with it.
    this.#process = spawn(command, { shell: true, detached: true, stdio: 'pipe' });
    this.#process.stdout?.setEncoding('utf8').on('data', (text: string) => this.#receive(text));
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#complaint = (this.#complaint + text).slice(-2000);
    });
    // Text that is written to a process that has ended is lost; the end is reported below.
    this.#process.stdin?.on('error', () => {});
    this.#process.on('close', (code, signal) => {
      this.#ended = signal === null ? `exit code ${code}` : `the signal ${signal}`;
      this.#wake();
    });
  }

  async hello(): Promise<void> {
    const { name } = await this.ask<{ name?: unknown }>({ op: 'hello', protocol: PROTOCOL });
    if (typeof name !== 'string' || name === '')
      throw new Error(`it answered hello without a "name": ${shorten(JSON.stringify(name))}`);
    this.name = name;
  }

  async add(requests: Extract<Message, { op: 'add' }>['requests']): Promise<Added> {
    return checkAdded(await this.ask({ op: 'add', requests }), requests.length, this.wallUs);
  }

  async step(count: number): Promise<Stepped> {
    return checkStepped(await this.ask({ op: 'step', count }), count, this.wallUs);
  }

  async ask<Answer extends object>(message: Message): Promise<Answer> {
    const begin = performance.now();
    this.#process.stdin?.write(`${JSON.stringify(message)}\n`);
    const line = await this.#next(message.op);
    this.wallUs = (performance.now() - begin) * 1000;
    let answer: unknown;
    try {
      answer = JSON.parse(line);
    } catch {
      throw new Error(`it answered ${message.op} with what is no JSON: ${shorten(line)}`);
    }
    if (typeof answer !== 'object' || answer === null || Array.isArray(answer))
      throw new Error(`it answered ${message.op} with what is no object: ${shorten(line)}`);
    if ('error' in answer) throw new Error(`it says to ${message.op}: ${shorten(String(answer.error))}`);
    return answer as Answer;
  }

  /** Asks it to end, and ends it where it does not. */
  async close(): Promise<void> {
    if (this.#ended === null) await this.ask({ op: 'close' }).catch(() => {});
    this.kill();
  }

  kill(): void {
    if (this.#process.pid === undefined || this.#ended !== null) return;
    try {
      process.kill(-this.#process.pid, 'SIGKILL');
    } catch {
      // The process has just ended.
    }
  }

  async #next(op: string): Promise<string> {
    const end = performance.now() + this.#timeoutMs;
    while (this.#lines.length === 0) {
      if (this.#ended !== null) {
        const said = this.#complaint.trim() === '' ? '' : `: ${shorten(lastLine(this.#complaint))}`;
        throw new Error(`it ended by ${this.#ended} instead of answering ${op}${said}`);
      }
      const left = end - performance.now();
      if (left <= 0) throw new Error(`it has not answered ${op} for ${this.#timeoutMs / 1000} s`);
      await this.#change(left);
    }
    return this.#lines.shift() as string;
  }

  /** Until something comes, or so many milliseconds. */
  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #receive(text: string): void {
    this.#text += text;
    const lines = this.#text.split('\n');
    this.#text = lines.pop() as string;
    // A line without an end is no JSON either.
    if (this.#text.length > LONGEST) lines.push(this.#text.slice(0, 100));
    this.#lines.push(...lines);
    this.#wake();
  }
}

/**
 * The line that says most about the fault of a process: the line of an error, else the last line.
 */
function lastLine(text: string): string {
  return /^\w*Error:.*$/m.exec(text)?.[0] ?? (text.trim().split('\n').at(-1) as string);
}
