// Splits CSV traces; the type of a CSV format.
import { parse } from 'csv-parse/sync';
import { badTrace, type Place, shown } from './place.js';
import type { TraceRow } from './workload-builder.js';

/** One CSV trace format: its columns, and the conversion of a row. */
export interface CsvFormat {
  /** Names of the columns that are read, in any order and with others between them. */
  readonly columns: readonly string[];
  /** Converts the fields of these columns, in the order of `columns`, to a row. */
  readRow(fields: readonly string[], place: Place): TraceRow;
}

/**
 * Splits a CSV trace. No format has line breaks inside a record, so each line is parsed by itself.
 * A stray quote then spoils one line, and not the rest of the file.
 */
export class CsvReader {
  readonly #format: CsvFormat;
  /** Index of each of the format's columns in a record. */
  #positions: readonly number[] = [];
  #numColumns = 0;

  constructor(format: CsvFormat) {
    this.#format = format;
  }

  /** Reads the header line. @throws ERR_BLOCKSTEP_BAD_TRACE naming a column that is missing. */
  readHeader(line: string, place: Place): void {
    const names = this.#split(line, place).map((name) => name.trim());
    for (const column of this.#format.columns) {
      if (!names.includes(column)) {
        throw badTrace(place, column, `expected a column of this name, got ${names.map(shown).join(', ')}`);
      }
    }
    this.#positions = this.#format.columns.map((column) => names.indexOf(column));
    this.#numColumns = names.length;
  }

  /**
   * Reads a line after the header.
   * @throws ERR_BLOCKSTEP_BAD_TRACE naming the column that is wrong.
   */
  readRow(line: string, place: Place): TraceRow {
    const fields = this.#split(line, place);
    if (fields.length !== this.#numColumns) {
      throw badTrace(place, null, `expected ${this.#numColumns} columns, got ${fields.length}`);
    }
    return this.#format.readRow(
      this.#positions.map((position) => fields[position].trim()),
      place,
    );
  }

  #split(line: string, place: Place): string[] {
    if (!line.includes('"')) return line.split(',');
    try {
      return (parse(line) as string[][])[0];
    } catch {
      throw badTrace(place, null, `expected a CSV record, got ${shown(line)}`);
    }
  }
}
