import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import { badField } from '../api/api-error.js';
import { readTexts } from '../api/completion-request.js';
import { checkText, Fields } from '../api/fields.js';
import type { ServedModel } from '../api/served-model.js';

/** The maximum number of texts of a request, as in OpenAI's API. */
const MOST_TEXTS = 2048;
const LONGEST = 2 ** 30;

const EMBEDDINGS = knownNames<Record<string, unknown>>('the body', {
  model: true,
  input: true,
  add_special_tokens: true,
  dimensions: true,
  encoding_format: true,
  user: true,
});
const RANKS = knownNames<Record<string, unknown>>('the body', {
  model: true,
  query: true,
  documents: true,
  top_n: true,
  return_documents: true,
  user: true,
});

/** The request of `POST /v1/embeddings`. */
export interface EmbeddingRequest {
  /** The token ids of each text. */
  readonly texts: readonly Int32Array[];
  readonly dimensions: number | null;
  /** Whether vectors are base64 of little-endian 32-bit floats, instead of a list. */
  readonly isBase64: boolean;
}

/** The request of `POST /v1/rerank`. */
export interface RankRequest {
  readonly query: string;
  readonly documents: readonly string[];
  /** The number of best documents to return. */
  readonly topN: number;
  readonly withDocuments: boolean;
}

/** @throws ApiError by rejection */
export async function readEmbeddings(body: unknown, model: ServedModel): Promise<EmbeddingRequest> {
  const fields = new Fields(body, EMBEDDINGS);
  fields.text('user', LONGEST);
  const format = fields.get('encoding_format') ?? 'float';
  if (format !== 'float' && format !== 'base64')
    throw badField('encoding_format', show(format), '"float" or "base64"');
  const dimensions = fields.integer('dimensions', 1, 2 ** 20) ?? null;
  return {
    texts: await readTexts(fields, 'input', model, MOST_TEXTS),
    dimensions,
    isBase64: format === 'base64',
  };
}

/** @throws ApiError */
export function readRanks(body: unknown, { encoder }: ServedModel): RankRequest {
  const fields = new Fields(body, RANKS);
  fields.text('user', LONGEST);
  const query = fields.text('query', LONGEST);
  if (query === undefined || query === '')
    throw badField('query', fields.shown('query'), 'a text that is not empty');
  const documents = fields.list('documents', MOST_TEXTS, 'documents');
  if (documents === undefined || documents.length === 0)
    throw badField('documents', fields.shown('documents'), 'a list of at least one document');
  encoder.checkLength('query', Buffer.byteLength(query));
  return {
    query,
    documents: documents.map((each, i) => {
      const name = `documents[${i}]`;
      const given = isObject(each) && Object.keys(each).length === 1 ? each['text'] : each;
      const document = checkText(name, given, LONGEST);
      encoder.checkLength(name, Buffer.byteLength(document));
      return document;
    }),
    topN: Math.min(fields.integer('top_n', 1, 2 ** 31 - 1) ?? documents.length, documents.length),
    withDocuments: fields.boolean('return_documents') ?? false,
  };
}
