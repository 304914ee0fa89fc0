// Two small vocabularies, with special tokens.
import type { GgufFile } from './gguf-file.js';

/** The kinds of tokens, by their numbers in the file. */
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const BYTE = 6;

/** Which vocabulary a model of the tests has: pieces with byte tokens as those of Llama 2, or byte-level BPE as that of GPT-2. */
export type VocabularyKind = 'llama' | 'gpt2';

/** The special tokens of a vocabulary of the tests. */
export interface SpecialTokens {
  readonly bos: string;
  /** Ends a text. */
  readonly eos: string;
  /** Begin and end a message of a chat. The end of a message is a token that ends the generation too, and is not `eos`. */
  readonly start: string;
  readonly end: string;
}

/** The special tokens of each vocabulary. */
export const SPECIAL_TOKENS: Readonly<Record<VocabularyKind, SpecialTokens>> = {
  llama: { bos: '<s>', eos: '</s>', start: '<|im_start|>', end: '<|im_end|>' },
  gpt2: { bos: '<|begin_of_text|>', eos: '<|endoftext|>', start: '<|im_start|>', end: '<|im_end|>' },
};

/** How many tokens a vocabulary has at least: special tokens, and one for each byte. */
export const LEAST_TOKENS = 320;

/** Writes the vocabulary. Every text has tokens, and every token a text or bytes. */
export function writeVocabulary(
  file: GgufFile,
  kind: VocabularyKind,
  size: number,
  preTokenizer: string,
): void {
  if (size < LEAST_TOKENS) throw new Error(`a vocabulary has at least ${LEAST_TOKENS} tokens, got ${size}`);
  file.text('tokenizer.ggml.model', kind);
  if (kind === 'llama') writePieces(file, size);
  else writeBytePairs(file, size, preTokenizer);
  file.bool('tokenizer.ggml.add_bos_token', true);
}

/** `<unk>`, special tokens, the bytes, letters, a space, letters behind a space, then words that a text can begin with. */
function writePieces(file: GgufFile, size: number): void {
  const { bos, eos, start, end } = SPECIAL_TOKENS.llama;
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${hex(byte)}>`);
  const tokens = ['<unk>', bos, eos, start, end, ...bytes, ...LETTERS, '▁'];
  // Pieces are joined two by two, so that each piece of a word is a token too.
  for (const letter of LETTERS) tokens.push(`▁${letter}`);
  for (let n = 0; tokens.length < size; n++) tokens.push(`▁${word(n)}`);
  tokens.length = size;
  const typeOf = (id: number) => (id === 0 ? UNKNOWN : id < 5 ? CONTROL : id < 261 ? BYTE : NORMAL);
  const ids = tokens.map((_, id) => id);
  file.texts('tokenizer.ggml.tokens', tokens);
  // Of two ways to cut a text the one of higher scores is taken: longer pieces are worth more than letters.
  file.f32s(
    'tokenizer.ggml.scores',
    ids.map((id) => (id < 261 ? 0 : -id)),
  );
  file.i32s('tokenizer.ggml.token_type', ids.map(typeOf));
  file.u32('tokenizer.ggml.unknown_token_id', 0);
  file.u32('tokenizer.ggml.bos_token_id', 1);
  file.u32('tokenizer.ggml.eos_token_id', 2);
}

/** Special tokens, the bytes as GPT-2 writes them, then pairs of earlier tokens. */
function writeBytePairs(file: GgufFile, size: number, preTokenizer: string): void {
  const { bos, eos, start, end } = SPECIAL_TOKENS.gpt2;
  const tokens = [bos, eos, start, end, ...BYTE_LETTERS];
  const merges: string[] = [];
  const add = (left: string, right: string): void => {
    if (tokens.length >= size || tokens.includes(left + right)) return;
    tokens.push(left + right);
    merges.push(`${left} ${right}`);
  };
  // A space and a letter, then two letters, then words of two such pairs: `Ġ` is how GPT-2 writes a space.
  for (const letter of LETTERS) add('Ġ', letter);
  for (const left of LETTERS) for (const right of LETTERS) add(left, right);
  for (let n = 0; tokens.length < size; n++) add(`Ġ${LETTERS[n % 26]}`, pair(Math.floor(n / 26)));
  file.text('tokenizer.ggml.pre', preTokenizer);
  file.texts('tokenizer.ggml.tokens', tokens);
  file.texts('tokenizer.ggml.merges', merges);
  file.i32s(
    'tokenizer.ggml.token_type',
    tokens.map((_, id) => (id < 4 ? CONTROL : NORMAL)),
  );
  file.u32('tokenizer.ggml.bos_token_id', 0);
  file.u32('tokenizer.ggml.eos_token_id', 1);
}

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];

/** The characters by which GPT-2 writes bytes: printable ones for themselves, the others from 256 on. */
const BYTE_LETTERS = (() => {
  let others = 0;
  const isPrintable = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(isPrintable(byte) ? byte : 256 + others++),
  );
})();

function hex(byte: number): string {
  return byte.toString(16).toUpperCase().padStart(2, '0');
}

function pair(n: number): string {
  return LETTERS[n % 26] + LETTERS[Math.floor(n / 26) % 26];
}

/** The words in their order: `aa`, `ba`, …, `zz`, `aaa`, … */
function word(n: number): string {
  const rest = Math.floor(n / 676);
  return rest === 0 ? pair(n) : pair(n) + word(rest - 1);
}
