// The trace format of BurstGPT.
import type { CsvFormat } from './csv.js';
import { badTrace, integerText, MAX_TOKENS, type Place, shown } from './place.js';

/**
 * The format of the BurstGPT traces: `Timestamp` (seconds), `Request tokens`, `Response tokens`.
 * Columns are found by their names, because older files lack `Session ID` and `Elapsed time`. A
 * failed call has 0 response tokens.
 */
export function burstGptFormat(): CsvFormat {
  return {
    columns: ['Timestamp', 'Request tokens', 'Response tokens'],
    readRow([timestamp, input, output], place) {
      return {
        arrivalMs: 1000 * readSeconds(timestamp, place),
        inputTokens: integerText(place, 'Request tokens', input, 1, MAX_TOKENS),
        outputTokens: integerText(place, 'Response tokens', output, 0, MAX_TOKENS),
        hashIds: null,
      };
    },
  };
}

function readSeconds(text: string, place: Place): number {
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (seconds * 1000 <= Number.MAX_SAFE_INTEGER) return seconds;
  throw badTrace(place, 'Timestamp', `expected seconds >= 0, got ${shown(text)}`);
}
