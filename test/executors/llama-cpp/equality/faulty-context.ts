// Plants bugs and failures between executor and llama.cpp.
import type { NativeAnswer, NativeContext } from '../../../../src/executors/llama-cpp/native/binding.js';

/** The changes of programs on their way to llama.cpp. */
export type Fault =
  /**
   * Now and then a call fails after those before it were done: its last token is at a wrong
   * position. Or the last step of a chain fails.
   */
  | 'fail'
  /** A wrong token, early in a text. */
  | 'token'
  /** The tokens of a prefix hit are copied from another sequence that has these positions. */
  | 'holder'
  /** Tokens to be removed at the end of a text stay. */
  | 'remove'
  /** A draw is made by the chance of another position. */
  | 'draw'
  /** A call is computed by another adapter. */
  | 'adapter'
  /** The loaded block is that of another text at the same positions. */
  | 'block';

const REMOVE = 0;
const COPY = 1;
const LOAD = 3;
/** Places of an arena that are looked at for another block. */
const PLACES = 20;

/** A context whose programs are changed, by chance, before llama.cpp has them. */
export function faulty(
  context: NativeContext,
  fault: Fault,
  { next, sequences, vocabSize }: { next: (below: number) => number; sequences: number; vocabSize: number },
): NativeContext & { readonly changed: () => number } {
  let changed = 0;
  const change = (program: Int32Array): void => {
    const [numCalls] = program;
    const failing = fault === 'fail' && next(40) === 0 ? next(numCalls) : -1;
    let at = 1;
    for (let call = 0; call < numCalls; call++) {
      const [numMoves, numTokens, numSamples, adapter] = program.subarray(at, at + 4);
      if (fault === 'adapter' && adapter >= 0 && next(20) === 0) {
        program[at + 3] = adapter - 1;
        changed++;
      }
      at += 4;
      for (let m = 0; m < numMoves; m++) changed += changeMove(program.subarray(at + 5 * m, at + 5 * m + 5));
      at += 5 * numMoves;
      const tokens = program.subarray(at, at + numTokens);
      const positions = program.subarray(at + numTokens, at + 2 * numTokens);
      if (call === failing && numTokens > 0) {
        positions[numTokens - 1] += 1000;
        changed++;
      }
      for (let t = 0; t < numTokens && fault === 'token'; t++) {
        if (positions[t] === 0 || positions[t] >= 8 || next(20) > 0) continue;
        tokens[t] = next(vocabSize);
        changed++;
      }
      at += 3 * numTokens;
      for (let s = 0; s < numSamples && fault === 'draw'; s++) {
        if (program[at + 4 * s + 2] < 0 || next(20) > 0) continue;
        program[at + 4 * s + 3]++;
        changed++;
      }
      at += 4 * numSamples;
    }
  };
  const changeMove = (move: Int32Array): number => {
    if (fault === 'remove' && move[0] === REMOVE && move[3] > 0 && move[4] < 0) {
      move[3] = 2 ** 30;
      return 1;
    }
    if (fault !== 'holder' || move[0] !== COPY) return 0;
    for (let s = 0; s < sequences; s++) {
      if (s === move[1] || s === move[2] || context.positions(s)[1] < move[4] - 1) continue;
      move[1] = s;
      return 1;
    }
    return 0;
  };
  const changeLoad = (move: Int32Array): number => {
    const [kind, , place, from, arena] = move;
    if (kind !== LOAD) return 0;
    for (let other = 0; other < PLACES; other++) {
      if (other === place || context.placeOf(arena, other) !== from) continue;
      move[2] = other;
      return 1;
    }
    return 0;
  };
  /** The last step of a chain fails. */
  const changeAnswer = (answer: NativeAnswer): NativeAnswer => {
    const isPlanted = fault === 'fail' && answer.steps > 1 && !answer.goesOn && next(4) === 0;
    if (!isPlanted) return answer;
    changed++;
    return { ...answer, callsDone: 0, failure: 'planted' };
  };
  return {
    compute: async (program, size, chain) => {
      change(program.subarray(0, size));
      return changeAnswer(await context.compute(program, size, chain));
    },
    next: async () => changeAnswer(await context.next()),
    endChain: () => context.endChain(),
    addSampler: (options) => context.addSampler(options),
    dropSampler: (sampler) => context.dropSampler(sampler),
    cells: () => context.cells(),
    positions: (sequence) => context.positions(sequence),
    blockBytes: () => context.blockBytes(),
    addArena: (pointer, numBlocks) => context.addArena(pointer, numBlocks),
    dropArena: (arena) => context.dropArena(arena),
    placeOf: (arena, block) => context.placeOf(arena, block),
    copy: (moves, size) => {
      for (let at = 0; at < size && fault === 'block'; at += 5)
        changed += changeLoad(moves.subarray(at, at + 5));
      return context.copy(moves, size);
    },
    waitForCopies: () => context.waitForCopies(),
    dispose: () => context.dispose(),
    changed: () => changed,
  };
}
