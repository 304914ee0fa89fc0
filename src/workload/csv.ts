import type * as csvParse from 'csv-parse/sync';
import { importOptional } from './optional-package.js';
import { badTrace, type Place, shown } from './place.js';
import type { TraceRow } from './workload-builder.js';

/** What sets one CSV trace format apart from another. */
export interface CsvFormat {
  /** The columns that it reads, by header name. Others may stand between them, in any order. */
  readonly columns: readonly string[];
  /** Makes a row of the fields of these columns, in this order. */
  readRow(fields: readonly string[], place: Place): TraceRow;
}

/**
 * Splits a CSV trace. None of the formats has line breaks inside a record, so each line is parsed by itself and a
 * stray quote costs one line, not the rest of the file.
 */
export class CsvReader {
  readonly #format: CsvFormat;
  readonly #parse: typeof csvParse.parse;
  /** Where the format's columns stand in a record. */
  #positions: readonly number[] = [];
  #numColumns = 0;

  private constructor(format: CsvFormat, parse: typeof csvParse.parse) {
    this.#format = format;
    this.#parse = parse;
  }

  /** @throws ERR_BLOCKSTEP_NO_PACKAGE when csv-parse is not installed. */
  static async create(format: CsvFormat): Promise<CsvReader> {
    const { parse } = await importOptional<typeof csvParse>('csv-parse/sync', 'reading a CSV trace');
    return new CsvReader(format, parse);
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

  /** Reads a line after the header. @throws ERR_BLOCKSTEP_BAD_TRACE naming the column that is wrong. */
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
      return this.#parse(line)[0];
    } catch {
      throw badTrace(place, null, `expected a CSV record, got ${shown(line)}`);
    }
  }
}
