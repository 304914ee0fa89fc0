import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { scriptArguments } from '../../../base/scripts/script-file.js';
import type { BlockStore, Visit } from '../stores/block-store.js';
import type { EmbeddedSettings } from '../stores/store-options.js';
import { removeFile } from './embedded-file.js';
import type { FileOrder, FileReply, Parcel } from './process-messages.js';
import { SeenWindows, SentWindows } from './windows.js';

/** Milliseconds that a process has to open its file. Another process may keep the file locked. */
const OPEN_MS = 10_000;

/** File descriptors that starting a process takes, at most. */
const DESCRIPTORS = 8;

/** What a call waits for. */
interface Call {
  resolve(reply: { outcomes: Uint8Array | null } | { values: Parcel }): void;
  reject(error: Error): void;
}

/** How a process ended that was to open a file. */
interface Failure {
  readonly error: string;
  readonly isDamaged: boolean;
  /** It ended by itself, and by a signal. */
  readonly hasCrashed: boolean;
}

/**
 * A store in a file of LMDB, which a process of its own has open: LMDB ends the process in which it meets damage, in which an opening
 * fails, or whose thread ends within a transaction (or has it hang). Values go through memory that both processes have.
 */
export class ProcessStore implements BlockStore {
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, Call>();
  readonly #sent = new SentWindows();
  readonly #seen = new SeenWindows();
  #numCalls = 0;
  #isClosing = false;
  readonly #ended: Promise<void>;

  private constructor(child: ChildProcess, died: (error: Error) => void, saidLast: () => string) {
    this.#child = child;
    child.on('message', (reply: FileReply) => this.#hear(reply));
    this.#ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        const error = new Error(
          `the process of the file ended with ${signal ?? code}: ${saidLast()}`.slice(0, 300),
        );
        for (const call of this.#calls.values()) call.reject(error);
        this.#calls.clear();
        resolve();
        if (!this.#isClosing) died(error);
      });
    });
  }

  /**
   * Opens the file, or makes it. A file that is damaged is removed, and made anew: what it kept is lost, and nobody reads nonsense.
   * @param died called if the process of the file ends by itself; then every call fails
   * @throws by rejection if the file cannot be opened: there is no access, no room, or it stays locked
   */
  static async open(settings: EmbeddedSettings, died: (error: Error) => void): Promise<ProcessStore> {
    const { path } = settings;
    const first = await ProcessStore.#start(settings, died);
    if (first instanceof ProcessStore) return first;
    // If another file can be made beside it, a crash is the fault of the file.
    const isDamaged = first.isDamaged || (first.hasCrashed && (await ProcessStore.#canMakeBeside(settings)));
    if (!isDamaged) throw new Error(`${path} could not be opened: ${first.error}`);
    removeFile(path);
    const second = await ProcessStore.#start(settings, died);
    if (second instanceof ProcessStore) return second;
    throw new Error(`${path} could not be opened: ${second.error}`);
  }

  static async #canMakeBeside(settings: EmbeddedSettings): Promise<boolean> {
    const path = `${settings.path}-trial`;
    try {
      const trial = await ProcessStore.#start({ ...settings, path }, () => {});
      if (trial instanceof ProcessStore) await trial.close();
      return trial instanceof ProcessStore;
    } finally {
      removeFile(path);
    }
  }

  /** Starts a process that opens a file. */
  static #start(
    { path, maxBytes }: EmbeddedSettings,
    died: (error: Error) => void,
  ): Promise<ProcessStore | Failure> {
    checkDescriptors();
    const script = scriptArguments(import.meta.url, 'process-main');
    const child = spawn(process.execPath, [...script, path, `${maxBytes}`], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
    });
    let said = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-200);
    });
    return new Promise((resolve) => {
      let isLate = false;
      let refused: Failure | null = null;
      const timer = setTimeout(() => {
        isLate = true;
        child.kill('SIGKILL');
      }, OPEN_MS);
      const ended = (code: number | null, signal: NodeJS.Signals | null): void => {
        clearTimeout(timer);
        const error = isLate
          ? `it took longer than ${OPEN_MS} ms`
          : said.trim() || signal || `exit status ${code}`;
        resolve(refused ?? { error, isDamaged: false, hasCrashed: isCrash(signal) });
      };
      const hear = (reply: FileReply): void => {
        if (reply.kind === 'refused')
          refused = { error: reply.error, isDamaged: reply.isDamaged, hasCrashed: false };
        if (reply.kind !== 'open') return;
        clearTimeout(timer);
        child.off('exit', ended).off('message', hear);
        resolve(new ProcessStore(child, died, () => said.trim()));
      };
      child.on('exit', ended).on('message', hear);
      // The process could not be started, or a message not be sent: its end, if it has begun, tells the rest.
      child.on('error', (error) => {
        said = error.message;
        if (child.pid === undefined) ended(null, null);
      });
    });
  }

  async has(keys: readonly string[]): Promise<Uint8Array> {
    return this.#outcomes(await this.#call((call) => ({ call, kind: 'has', keys })));
  }

  async get(keys: readonly string[], visit: Visit): Promise<void> {
    let number = 0;
    const reply = await this.#call((call) => {
      number = call;
      return { call, kind: 'get', keys };
    });
    if (!('values' in reply)) throw new Error('the process of the file answered without values');
    try {
      for (const [i, value] of this.#seen.unpack(reply.values).entries()) visit(i, value);
    } finally {
      this.#send({ kind: 'taken', call: number });
    }
  }

  async put(keys: readonly string[], values: readonly Uint8Array[]): Promise<Uint8Array> {
    const parcel = this.#sent.begin(values.length);
    for (const value of values) parcel.add(value);
    try {
      const sent = parcel.end();
      return this.#outcomes(await this.#call((call) => ({ call, kind: 'put', keys, values: sent })));
    } finally {
      // A call is over when the process has answered, or is gone: nobody reads the window any more.
      parcel.free();
    }
  }

  async remove(keys: readonly string[]): Promise<void> {
    await this.#call((call) => ({ call, kind: 'remove', keys }));
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#send({ kind: 'close' });
    await this.#ended;
    this.#sent.dispose();
    this.#seen.dispose();
  }

  /** The process of the file, for tests. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  #call(order: (call: number) => FileOrder): Promise<{ outcomes: Uint8Array | null } | { values: Parcel }> {
    const call = ++this.#numCalls;
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { resolve, reject });
      this.#send(order(call));
    });
  }

  #send(order: FileOrder): void {
    // What cannot be sent is answered by the end of the process.
    if (this.#child.connected) this.#child.send(order, () => {});
    else if ('call' in order) this.#fail(order.call, 'the process of the file has ended');
  }

  #hear(reply: FileReply): void {
    if (!('call' in reply)) return;
    if (reply.kind === 'failed') this.#fail(reply.call, reply.error);
    else {
      this.#calls.get(reply.call)?.resolve(reply);
      this.#calls.delete(reply.call);
    }
  }

  #fail(call: number, error: string): void {
    this.#calls.get(call)?.reject(new Error(error));
    this.#calls.delete(call);
  }

  #outcomes(reply: object): Uint8Array {
    const { outcomes } = reply as { outcomes?: Uint8Array | null };
    if (outcomes instanceof Uint8Array) return outcomes;
    throw new Error('the process of the file answered without outcomes');
  }
}

/**
 * A process that cannot be started for want of file descriptors would leave some of them open for good.
 * @throws EMFILE, ENFILE if there are too few
 */
function checkDescriptors(): void {
  const held: number[] = [];
  try {
    for (let i = 0; i < DESCRIPTORS; i++) held.push(openSync(process.execPath, 'r'));
  } finally {
    for (const descriptor of held) closeSync(descriptor);
  }
}

/** Whether a process was ended by what happened in it, and not by somebody. */
function isCrash(signal: NodeJS.Signals | null): boolean {
  return signal !== null && signal !== 'SIGKILL' && signal !== 'SIGTERM' && signal !== 'SIGINT';
}
