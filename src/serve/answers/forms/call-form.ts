/** The valid names of tools. */
export const TOOL_NAME = /^[\w.:-]+$/;

/** A tool call that a model made. */
export interface ReadCall {
  readonly name: string;
  /** A JSON object, as text. */
  readonly arguments: string;
}

/** The parameters of the client's tools: JSON schemas by the names of the tools. */
export type ToolSchemas = ReadonlyMap<string, Readonly<Record<string, unknown>>>;

/** The format in which a family of models writes tool calls. */
export interface CallForm {
  /**
   * The markers that enclose calls. If `end` is null, a call extends to the next marker or to the
   * end of the answer.
   */
  readonly markers: readonly { readonly begin: string; readonly end: string | null }[];
  /** Markers within calls, if the vocabulary has special tokens for them. */
  readonly inner?: readonly string[];
  /**
   * Matches the first hundred characters of an answer that may consist of calls without a marker.
   * Absent: no answer does.
   */
  readonly bare?: RegExp;
  /** Whether call ids are nine letters and digits, as the family's templates require. */
  readonly hasShortIds?: true;
  /**
   * Parses the calls in a text; null or an error if the text is not in this format. The time is
   * linear in the length of the text.
   * @param body the text between the markers
   * @param hasEnded whether the closing marker came, rather than the end of the answer
   */
  read(body: string, tools: ToolSchemas, hasEnded: boolean): readonly ReadCall[] | null;
}
