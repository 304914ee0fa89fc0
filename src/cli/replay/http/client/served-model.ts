import { BlockstepError, badArgument, show } from '../../../../base/errors.js';
import { CallFailure, oneLine, statusFailure } from './call-failure.js';
import type { HttpClient } from './http-client.js';

/** Most milliseconds that a server may take to list its models. */
const PATIENCE_MS = 15_000;

/**
 * The model to request: the wanted model, or the server's first. A server that does not list its
 * models is assumed to have the wanted model.
 * @param wanted the name that the user gave
 * @throws ERR_BLOCKSTEP_SERVER if the server cannot be reached, or denies access;
 * ERR_BLOCKSTEP_BAD_ARG if it has other models
 */
export async function servedModel(
  client: HttpClient,
  wanted: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const found = await listModels(client, signal);
  if (typeof found !== 'string') {
    if (wanted === undefined) return found[0];
    if (found.includes(wanted)) return wanted;
    const listed = found.slice(0, 5).map((name) => show(oneLine(name)));
    throw badArgument('--model', show(wanted), `one that the server has (${listed.join(', ')})`);
  }
  if (wanted !== undefined) return wanted;
  throw new BlockstepError('ERR_BLOCKSTEP_SERVER', `${found}; choose one with --model`);
}

/** The names of the models, at least one; or in words why they are unknown. */
async function listModels(client: HttpClient, signal: AbortSignal): Promise<string[] | string> {
  const { base, authorization } = client.server;
  const answer = await client.get('/v1/models', PATIENCE_MS, signal).catch((failure: unknown) => {
    if (!(failure instanceof CallFailure)) throw failure;
    throw new BlockstepError(
      'ERR_BLOCKSTEP_SERVER',
      `the server ${base} cannot be reached: ${failure.message}`,
    );
  });
  const { status, text } = answer;
  if (status === 401 || status === 403) {
    const hint =
      authorization === null ? 'it requires a key: --api-key, or BLOCKSTEP_API_KEY' : 'the key is wrong';
    const said = statusFailure(status, text).message;
    throw new BlockstepError('ERR_BLOCKSTEP_SERVER', `the server ${base} denies access (${said}): ${hint}`);
  }
  if (status !== 200)
    return `the server ${base} did not list its models (${statusFailure(status, text).message})`;
  const names = namesIn(text);
  return names.length > 0 ? names : `the server ${base} lists no models, as OpenAI's API would have it`;
}

function namesIn(text: string): string[] {
  try {
    const { data } = JSON.parse(text) as { data?: unknown };
    if (!Array.isArray(data)) return [];
    const ids = data.map((model: unknown) => (model as { id?: unknown } | null)?.id);
    return ids.filter((id) => typeof id === 'string');
  } catch {
    return [];
  }
}
