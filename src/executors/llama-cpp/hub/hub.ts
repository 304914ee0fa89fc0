import { BlockstepError } from '../../../base/errors.js';
import { downloadError, systemWords } from './download-error.js';
import type { HubName } from './hub-name.js';
import { type HubFile, readListing } from './listing.js';

/** The address of the hub, and the user's token. */
export interface HubSettings {
  /** Has no slash at its end. */
  readonly endpoint: string;
  /** Null: no token. The token is sent to the endpoint alone, and appears in no message. */
  readonly token: string | null;
  /** True: the hub is never asked, and only the cache is used. */
  readonly isOffline: boolean;
}

const ENDPOINT = 'https://huggingface.co';
const MOST_REDIRECTS = 5;
/** Most bytes of a list of files. */
const LONGEST_LISTING = 2 ** 25;
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
const YES = /^(1|true|yes|on)$/i;

/** An answer that may soon change, so the request is repeated. */
export class Unavailable extends Error {}

/**
 * Reads HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE, as the hub's own tools do.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function hubSettings(environment: NodeJS.ProcessEnv): HubSettings {
  const given = environment['HF_ENDPOINT']?.trim() || ENDPOINT;
  const token = environment['HF_TOKEN']?.trim() || null;
  const bad = (what: string): BlockstepError => new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', what);
  const url = URL.canParse(given) ? new URL(given) : null;
  // The address is printed, so it must hold no password.
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw bad('HF_ENDPOINT must be the address of a hub, by https or http and without a password');
  if (url.search !== '' || url.hash !== '') throw bad('HF_ENDPOINT must be an address without ? and #');
  if (token !== null && !/^[\x21-\x7e]+$/.test(token)) throw bad('HF_TOKEN has characters that no token has');
  if (token !== null && url.protocol === 'http:' && !/^(localhost|127\..*|\[::1\])$/.test(url.hostname))
    throw bad('HF_ENDPOINT must be https where HF_TOKEN is given: others could read it on the way');
  return {
    endpoint: url.href.replace(/\/+$/, ''),
    token,
    isOffline: YES.test(environment['HF_HUB_OFFLINE'] ?? ''),
  };
}

/** A hub like Hugging Face's. It lists the files of a model, and serves them. */
export class Hub {
  readonly #endpoint: string;
  readonly #token: string | null;
  readonly #signal: AbortSignal | null;

  constructor({ endpoint, token }: HubSettings, signal: AbortSignal | null) {
    this.#endpoint = endpoint;
    this.#token = token;
    this.#signal = signal;
  }

  /**
   * Lists the current files of a model, and their commit.
   * @throws by rejection ERR_BLOCKSTEP_DOWNLOAD; `Unavailable` if the hub cannot be reached
   */
  async list({ owner, name }: HubName): Promise<{ commit: string; files: readonly HubFile[] }> {
    const what = `hf:${owner}/${name}`;
    const response = await this.#get(`/api/models/${owner}/${name}/revision/main?blobs=true`, {}, what);
    return readListing(await this.#text(response, what), what);
  }

  /**
   * Opens a file for reading.
   * @param from the first byte that is wanted
   * @returns the bytes from `start` on. `start` is `from`, or 0 if the hub only serves whole files
   */
  async open(
    { owner, name }: HubName,
    commit: string,
    path: string,
    from: number,
  ): Promise<{ start: number; body: AsyncIterable<Uint8Array> }> {
    const place = path.split('/').map(encodeURIComponent).join('/');
    const range = from > 0 ? { range: `bytes=${from}-` } : {};
    const response = await this.#get(`/${owner}/${name}/resolve/${commit}/${place}`, range, path);
    const body = response.body as AsyncIterable<Uint8Array> | null;
    if (body === null) throw new Unavailable(`${path} came without content`);
    if (response.status !== 206) return { start: 0, body };
    const said = response.headers.get('content-range') ?? '';
    if (new RegExp(`^bytes ${from}-`).test(said)) return { start: from, body };
    await response.body?.cancel();
    throw downloadError(`${path} was asked for from byte ${from} on, and the hub gives ${said.slice(0, 60)}`);
  }

  /** Sends a request, and follows redirects itself: the token goes with the first request alone. */
  async #get(path: string, headers: Record<string, string>, what: string): Promise<Response> {
    let url = new URL(this.#endpoint + path);
    for (let hops = 0; hops <= MOST_REDIRECTS; hops++) {
      const secret = hops === 0 && this.#token !== null ? { authorization: `Bearer ${this.#token}` } : {};
      const response = await this.#fetch(url, { ...headers, ...secret, 'accept-encoding': 'identity' });
      if (!REDIRECTS.includes(response.status)) return this.#checked(response, url, what);
      await response.body?.cancel();
      url = redirected(url, response.headers.get('location') ?? '', what);
    }
    throw downloadError(`${what}: more than ${MOST_REDIRECTS} redirects`);
  }

  async #fetch(url: URL, headers: Record<string, string>): Promise<Response> {
    try {
      return await fetch(url, { redirect: 'manual', headers, signal: this.#signal });
    } catch (error) {
      this.#signal?.throwIfAborted();
      throw new Unavailable(`${url.host} cannot be reached: ${systemWords(error)}`);
    }
  }

  async #checked(response: Response, { host }: URL, what: string): Promise<Response> {
    const { status, ok } = response;
    if (ok) return response;
    await response.body?.cancel();
    if (status === 429 || status >= 500) throw new Unavailable(`${host} answers ${status} for ${what}`);
    if (status === 401 || status === 403) {
      const how = this.#token === null ? 'HF_TOKEN is not set' : 'HF_TOKEN does not let in';
      throw downloadError(`${what} does not exist on ${host}, or not for everybody: ${how} (${status})`);
    }
    throw downloadError(`${host} answers ${status} for ${what}${status === 404 ? ': there is no such' : ''}`);
  }

  async #text(response: Response, what: string): Promise<string> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    try {
      for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
        length += chunk.length;
        if (length > LONGEST_LISTING)
          throw downloadError(`the list of files of ${what} has more than ${LONGEST_LISTING} bytes`);
        chunks.push(chunk);
      }
    } catch (error) {
      this.#signal?.throwIfAborted();
      if (error instanceof BlockstepError) throw error;
      throw new Unavailable(`the list of files of ${what} broke off: ${systemWords(error)}`);
    }
    return Buffer.concat(chunks).toString('utf8');
  }
}

/**
 * The target of a redirect. It may be any host, but https never leads to a connection that others
 * can read or change.
 */
function redirected(from: URL, location: string, what: string): URL {
  const to = location !== '' && URL.canParse(location, from.href) ? new URL(location, from) : null;
  const isSafe = to?.protocol === 'https:' || (to?.protocol === 'http:' && from.protocol === 'http:');
  if (to === null || !isSafe || to.username !== '' || to.password !== '')
    throw downloadError(`${what}: ${from.host} redirects to an address that is not allowed`);
  return to;
}
