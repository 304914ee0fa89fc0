import type { NativeModel, NativeModelInfo } from '../native/binding.js';

/**
 * The tokens by which a model scores how well a document answers a query: by the template of its file, else as encoders are trained, with
 * the tokens that its vocabulary puts between two texts.
 */
export function rankPrompt(
  native: NativeModel,
  { rankTemplate, bos, eos, sep, addsBos, addsEos, addsSep }: NativeModelInfo,
  query: string,
  document: string,
): Int32Array {
  if (rankTemplate !== null) {
    const parts = { '{query}': query, '{document}': document };
    const text = rankTemplate.replace(/\{query\}|\{document\}/g, (name) => parts[name as keyof typeof parts]);
    return native.tokenize(text, false, true);
  }
  const end = eos < 0 ? sep : eos;
  const special = (isThere: boolean, token: number): number[] => (isThere && token >= 0 ? [token] : []);
  return Int32Array.of(
    ...special(addsBos, bos),
    ...native.tokenize(query, false, false),
    ...special(addsEos, end),
    ...special(addsSep, sep),
    ...native.tokenize(document, false, false),
    ...special(addsEos, end),
  );
}
