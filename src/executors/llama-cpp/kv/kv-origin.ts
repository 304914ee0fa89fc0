// Everything that saved KV depends on, as hashes: only blocks of the same origin are loaded.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { messageOf } from '../../../base/errors.js';
import { badModel } from '../gguf/bad-model.js';
import { partPaths, readGguf } from '../gguf/gguf-file.js';
import { LlamaModel } from '../model/llama-model.js';

/** The settings of an executor on which the KV of equal tokens depends. */
export interface KvSettings {
  readonly model: LlamaModel;
  readonly blockSize: number;
  readonly cells: number;
  readonly cacheType: string;
  readonly flashAttention: number;
}

/** The origin of blocks. */
export interface KvOrigin {
  /** All of it in one name. */
  readonly name: string;
  /** One hash for each reason of a refusal: library, model, adapters, cache, shape. */
  readonly hashes: BigUint64Array;
}

/** Bytes of a read. JavaScript goes on between two reads. */
const PIECE = 2 ** 22;
/** Tensors of a model whose rotations depend on the length of the context. */
const BY_CONTEXT = /rope_factors_(long|short)/;

/** The content of models that was read already. */
const digests = new WeakMap<LlamaModel, Promise<readonly [model: string, adapters: string]>>();

/**
 * Reads the files of a model and of its adapters, once for each model.
 * @throws by rejection ERR_BLOCKSTEP_BAD_MODEL if a file cannot be read any more
 */
export async function kvOrigin(settings: KvSettings): Promise<KvOrigin> {
  const { model, blockSize, cells, cacheType, flashAttention } = settings;
  const { commit } = LlamaModel.nativeOf(model).library;
  let known = digests.get(model);
  if (known === undefined) {
    known = digestsOf(model);
    digests.set(model, known);
    known.catch(() => digests.delete(model));
  }
  const [weights, adapters] = await known;
  const isByContext = readGguf(model.card.path).tensors.some(({ name }) => BY_CONTEXT.test(name));
  const facts = [
    commit,
    weights,
    adapters,
    `${cacheType} ${flashAttention}`,
    `${blockSize} ${isByContext ? cells : 0}`,
  ].map((fact) => createHash('sha256').update(fact).digest());
  const name = createHash('sha256').update(Buffer.concat(facts)).digest('hex').slice(0, 32);
  return { name, hashes: BigUint64Array.from(facts, (fact) => fact.readBigUInt64LE(0)) };
}

async function digestsOf(model: LlamaModel): Promise<readonly [string, string]> {
  const { path } = model.card;
  const { loras } = LlamaModel.nativeOf(model);
  const parts = partPaths(path, readGguf(path).values.get('split.count'));
  const weights: string[] = [];
  for (const part of parts) weights.push(await digestOf(part));
  // A name stands for another file after a restart, so names and contents belong together.
  const adapters: string[] = [];
  for (const [name, file] of loras) adapters.push(JSON.stringify([name, await digestOf(file)]));
  return [weights.join(), adapters.sort().join()];
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const piece of createReadStream(path, { highWaterMark: PIECE })) hash.update(piece as Buffer);
    return hash.digest('hex');
  } catch (cause) {
    throw badModel(path, `cannot be read: ${messageOf(cause)}`, cause);
  }
}
