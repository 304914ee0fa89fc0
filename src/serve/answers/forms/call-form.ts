/** What may be the name of a tool. */
export const TOOL_NAME = /^[\w.:-]+$/;

/** A call of a tool that a model made. */
export interface ReadCall {
  readonly name: string;
  /** An object, as JSON. */
  readonly arguments: string;
}

/** What a client said of the parameters of its tools: JSON schemas by the names of the tools. */
export type ToolSchemas = ReadonlyMap<string, Readonly<Record<string, unknown>>>;

/** The form in which a family of models writes calls of tools. */
export interface CallForm {
  /** The markers between which calls stand. Without an end a call goes to the next marker, or to the end of the answer. */
  readonly markers: readonly { readonly begin: string; readonly end: string | null }[];
  /** Markers within calls, as far as tokens of their own stand for them. */
  readonly inner?: readonly string[];
  /** How an answer begins, in its first hundred characters, that may be calls alone, without a marker. None: no answer does. */
  readonly bare?: RegExp;
  /** Whether ids of calls have nine letters and digits, which the templates of the family demand. */
  readonly hasShortIds?: true;
  /**
   * The calls that stand in a text; null, or an error: it is not of the form. Time is linear in the text.
   * @param body what stands between the markers
   * @param hasEnded whether the marker behind it came, and not the end of the answer
   */
  read(body: string, tools: ToolSchemas, hasEnded: boolean): readonly ReadCall[] | null;
}
