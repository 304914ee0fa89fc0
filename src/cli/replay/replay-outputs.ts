import { realpathSync } from 'node:fs';
import { BlockstepError } from '../../base/errors.js';
import { type Host, readHost } from '../../report/host.js';
import { OutputFile } from '../../report/output-file.js';
import { loadPlotLibrary, type PlotLibrary } from '../../report/page/library.js';
import { LogRecorder } from '../log/log-file.js';

/** Facts of a page about its making. */
export interface Made {
  /** Whether the scheduler wrote a log meanwhile. */
  readonly recorded: boolean;
  readonly host: Host;
  readonly date: Date;
}

/**
 * The files that a replay writes. They appear when the replay has ended or was interrupted, and
 * never after an error.
 */
export class ReplayOutputs {
  readonly recorder: LogRecorder | null;
  readonly #files: OutputFile[] = [];
  readonly #page: { file: OutputFile; plots: PlotLibrary } | null = null;
  readonly #record: OutputFile | null = null;

  /**
   * Begins the files.
   * @param flags paths of the page and of the log; undefined = not wanted
   * @param input path of the trace that is read; neither file may replace it
   * @throws ERR_BLOCKSTEP_BAD_FILE, ERR_BLOCKSTEP_BAD_ARG; nothing is left behind then
   */
  constructor(flags: { report?: string; record?: string }, input: string | undefined) {
    try {
      if (flags.report !== undefined) {
        const plots = loadPlotLibrary();
        this.#page = { plots, file: this.#open('--report', flags.report, input) };
      }
      if (flags.record !== undefined) this.#record = this.#open('--record', flags.record, input);
      this.recorder = this.#record === null ? null : new LogRecorder(this.#record);
    } catch (error) {
      this.discard();
      throw error;
    }
  }

  /**
   * Writes the page of `make`, if the flags ask for a page.
   * @throws ERR_BLOCKSTEP_BAD_FILE
   */
  writePage(make: (made: Made, plots: PlotLibrary) => string): void {
    if (this.#page === null) return;
    const made = { recorded: this.recorder !== null, host: readHost(), date: new Date() };
    this.#page.file.write(new TextEncoder().encode(make(made, this.#page.plots)));
  }

  /**
   * Gives the files their names. Call it after the disposal of the replay.
   * @returns their paths
   * @throws ERR_BLOCKSTEP_BAD_FILE
   */
  commit(): string[] {
    this.recorder?.commit();
    this.#page?.file.commit();
    return this.#files.map(({ path }) => path);
  }

  /** Removes the files that were not committed. */
  discard(): void {
    for (const file of this.#files) file.discard();
  }

  #open(flag: string, path: string, input: string | undefined): OutputFile {
    const file = new OutputFile(path);
    this.#files.push(file);
    if (input !== undefined && realPath(input) === file.target) {
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${flag} would replace the trace ${path}`);
    }
    if (this.#files.filter(({ target }) => target === file.target).length > 1) {
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `--report and --record both name ${path}`);
    }
    return file;
  }
}

function realPath(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}
