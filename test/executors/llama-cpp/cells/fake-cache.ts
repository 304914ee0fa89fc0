/** A cell: a position, the sequences that have it, and a number that depends on the token and all tokens before it. */
interface Cell {
  readonly position: number;
  readonly sequences: Set<number>;
  readonly content: number;
}

const WORD = 32_749;

/** The value that a model computes for a token behind a text, in place of keys and values. */
export function after(content: number, token: number): number {
  return (content * 31 + token + 1) % WORD;
}

/** The next token of a text. */
export function nextToken(content: number): number {
  return (content * 17) % 1000;
}

/** llama.cpp's unified cache and its rules, without a model: runs programs as native/llama/program.h describes them. */
export class FakeCache {
  readonly #size: number;
  readonly #cells = new Set<Cell>();
  /** The most cells that were in use. */
  most = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** @returns for each sample of the program its token, and that behind each draft that was right */
  run(program: Int32Array): number[][] {
    const answers: number[][] = [];
    let at = 1;
    for (let call = 0; call < program[0]; call++) {
      const [numMoves, count, numSamples] = program.subarray(at, at + 4);
      at += 4;
      for (let m = 0; m < numMoves; m++, at += 5) this.#move(program.subarray(at, at + 5));
      const tokens = program.subarray(at, at + count);
      const contents = this.#compute(
        tokens,
        program.subarray(at + count, at + 2 * count),
        program.subarray(at + 2 * count, at + 3 * count),
      );
      at += 3 * count;
      for (let s = 0; s < numSamples; s++, at += 4) {
        const [row, drafts] = program.subarray(at, at + 2);
        const answer: number[] = [];
        for (let d = 0; d <= drafts; d++) {
          answer.push(nextToken(contents[row + d]));
          if (d < drafts && tokens[row + d + 1] !== answer[d]) break;
        }
        answers.push(answer);
      }
    }
    return answers;
  }

  #move([kind, sequence, target, from, to]: Int32Array): void {
    for (const cell of this.#cells) {
      if (!cell.sequences.has(sequence) || cell.position < from || (to >= 0 && cell.position >= to)) continue;
      if (kind === 1) cell.sequences.add(target);
      else cell.sequences.delete(sequence);
      if (cell.sequences.size === 0) this.#cells.delete(cell);
    }
  }

  #compute(tokens: Int32Array, positions: Int32Array, sequences: Int32Array): number[] {
    return Array.from(tokens, (token, i) => {
      const own = [...this.#cells].filter(({ sequences: all }) => all.has(sequences[i]));
      const last = own.reduce((most, { position }) => Math.max(most, position), -1);
      if (positions[i] !== last + 1) throw new Error(`position ${positions[i]} behind ${last}`);
      // A sequence has one cell for each position: two would both be attended to.
      if (own.length !== last + 1) throw new Error(`${own.length} cells for ${last + 1} positions`);
      const before = own.find(({ position }) => position === last)?.content ?? 0;
      if (this.#cells.size === this.#size) throw new Error('no cell is left');
      const content = after(before, token);
      this.#cells.add({ position: positions[i], sequences: new Set([sequences[i]]), content });
      this.most = Math.max(this.most, this.#cells.size);
      return content;
    });
  }
}
