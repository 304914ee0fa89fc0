import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { REPOSITORY } from '../machine.js';

/** A process of the benchmark, which receives words and answers with messages. */
export class Child {
  readonly #process: ChildProcess;
  readonly #lines: Interface | null;
  readonly #waiting: unknown[] = [];
  #wake: () => void = () => {};

  /** @param name a program beside this one; in Python if it ends so */
  constructor(name: string, args: readonly string[]) {
    const isPython = name.endsWith('.py');
    this.#process = isPython
      ? spawn(python(), [join(REPOSITORY, 'bench/serve', name), ...args], {
          stdio: ['pipe', 'pipe', 'inherit'],
        })
      : spawn(process.execPath, [...scriptArguments(import.meta.url, `./${name}`), ...args], {
          stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
        });
    const receive = (message: unknown): void => {
      this.#waiting.push(message);
      this.#wake();
    };
    this.#lines = isPython ? createInterface({ input: this.#process.stdout! }) : null;
    this.#lines?.on('line', (line) => receive(JSON.parse(line)));
    this.#process.on('message', receive);
  }

  tell(word: 'begin' | 'end'): void {
    if (this.#lines === null) this.#process.send(word);
    else this.#process.stdin?.write(`${word}\n`);
  }

  /** Its next message. */
  async next<Message>(): Promise<Message> {
    while (this.#waiting.length === 0)
      await Promise.race([
        new Promise<void>((resolve) => {
          this.#wake = resolve;
        }),
        once(this.#process, 'exit').then(([code]) => {
          throw new Error(`a process of the benchmark ended with ${code}`);
        }),
      ]);
    return this.#waiting.shift() as Message;
  }

  end(): void {
    this.#process.kill('SIGKILL');
  }
}

/** The Python that has FastAPI: Debian's, or the one in PYTHON. */
export function python(): string {
  return process.env['PYTHON'] ?? '/usr/bin/python3';
}
