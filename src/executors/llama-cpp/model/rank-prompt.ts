import type { NativeModelInfo } from '../native/binding.js';

/**
 * The prompt by which a model scores how well a document answers a query. It follows the template
 * of the model's file. Without a template it has the tokens that the vocabulary puts between two
 * texts, as in the training of encoders.
 */
export async function rankPrompt(
  { rankTemplate, bos, eos, sep, addsBos, addsEos, addsSep }: NativeModelInfo,
  tokenize: (text: string, parseSpecial: boolean) => Promise<Int32Array>,
  query: string,
  document: string,
): Promise<Int32Array> {
  if (rankTemplate !== null) {
    const parts = { '{query}': query, '{document}': document };
    const text = rankTemplate.replace(/\{query\}|\{document\}/g, (name) => parts[name as keyof typeof parts]);
    return tokenize(text, true);
  }
  const end = eos < 0 ? sep : eos;
  const special = (isThere: boolean, token: number): number[] => (isThere && token >= 0 ? [token] : []);
  return Int32Array.from([
    ...special(addsBos, bos),
    ...(await tokenize(query, false)),
    ...special(addsEos, end),
    ...special(addsSep, sep),
    ...(await tokenize(document, false)),
    ...special(addsEos, end),
  ]);
}
