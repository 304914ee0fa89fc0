// The trace format of Azure LLM.
import type { CsvFormat } from './csv.js';
import { badTrace, integerText, MAX_TOKENS, type Place, shown } from './place.js';

const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))?$/;

/**
 * The format of the Azure LLM inference traces: `TIMESTAMP` (UTC, up to 9 decimals),
 * `ContextTokens`, `GeneratedTokens`. One format object reads one file. It counts milliseconds from
 * the file's first row, because the seventh decimal of a time counted from 1970 would not fit a
 * double.
 */
export function azureFormat(): CsvFormat {
  let base: number | null = null;
  return {
    columns: ['TIMESTAMP', 'ContextTokens', 'GeneratedTokens'],
    readRow([timestamp, input, output], place) {
      const { seconds, fraction } = readTimestamp(timestamp, place);
      const inputTokens = integerText(place, 'ContextTokens', input, 1, MAX_TOKENS);
      const outputTokens = integerText(place, 'GeneratedTokens', output, 0, MAX_TOKENS);
      base ??= seconds;
      return {
        arrivalMs: (seconds - base) * 1000 + fraction * 1000,
        inputTokens,
        outputTokens,
        hashIds: null,
      };
    },
  };
}

/** A time as whole seconds since 1970 and the fraction of a second behind them. */
function readTimestamp(text: string, place: Place): { seconds: number; fraction: number } {
  const match = TIMESTAMP.exec(text);
  if (match !== null) {
    const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number);
    const date = new Date(Date.UTC(year, month - 1, day, hour, minute, second));
    // Date.UTC takes month 13 for next January. Such a date prints differently from its text, and
    // is refused.
    if (date.toISOString().slice(0, 19) === `${text.slice(0, 10)}T${text.slice(11, 19)}`) {
      const offset = (Number(match[9] ?? 0) * 60 + Number(match[10] ?? 0)) * (match[8] === '-' ? -60 : 60);
      return { seconds: date.getTime() / 1000 - offset, fraction: Number(`0.${match[7] ?? 0}`) };
    }
  }
  const expected = 'expected a time like 2023-11-16 18:17:03.9799600';
  throw badTrace(place, 'TIMESTAMP', `${expected}, got ${shown(text)}`);
}
