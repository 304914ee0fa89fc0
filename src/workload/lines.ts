// The lines of a file, one at a time.
import { createReadStream } from 'node:fs';
import { BlockstepError } from '../base/errors.js';
import { badTrace, type Place } from './place.js';

/**
 * Longest line that is read, in characters. It bounds memory, and is far above any request of a
 * trace.
 */
const MAX_LINE_LENGTH = 2 ** 24;

/**
 * The lines of a UTF-8 file, one at a time, without line ends (LF or CRLF) and without a byte order
 * mark. `place.line` is set to the number of the line that was yielded last. At most one line is in
 * memory, besides the chunk that was read.
 *
 * node:readline is not used because it also breaks lines at U+2028 and U+2029, which are legal
 * inside JSON strings.
 * @throws ERR_BLOCKSTEP_BAD_FILE when the file cannot be read
 * @throws ERR_BLOCKSTEP_BAD_TRACE when a line is longer than 16,777,216 characters
 */
export async function* readLines(place: Place): AsyncGenerator<string> {
  let rest = '';
  place.line = 0;
  for await (const chunk of readText(place.file)) {
    const lines = chunk.split('\n');
    lines[0] = rest + lines[0];
    rest = lines.pop()!;
    for (const line of lines) {
      place.line++;
      yield trimEnd(line);
    }
    if (rest.length > MAX_LINE_LENGTH) {
      place.line++;
      throw badTrace(place, null, `expected a line of at most ${MAX_LINE_LENGTH} characters`);
    }
  }
  place.line++;
  if (rest !== '') yield trimEnd(rest);
}

async function* readText(file: string): AsyncGenerator<string> {
  // TextDecoder drops a byte order mark, and joins characters that lie across two chunks.
  const decoder = new TextDecoder('utf-8');
  try {
    for await (const bytes of createReadStream(file)) yield decoder.decode(bytes as Buffer, { stream: true });
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${file}: cannot be read: ${reason}`, { cause });
  }
  yield decoder.decode();
}

function trimEnd(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}
