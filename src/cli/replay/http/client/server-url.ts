import { badArgument, show } from '../../../../base/errors.js';

/** The address of a server with OpenAI's API, and the credentials for it. */
export interface ServerUrl {
  /**
   * The address in front of `/v1`, without a slash at its end and without credentials, so that it
   * may be printed.
   */
  readonly base: string;
  /**
   * The value of the header `authorization`, which is never printed; null: the header is not sent.
   */
  readonly authorization: string | null;
}

/**
 * Reads the address of a server, with or without `/v1` at its end. A user and a password in it are
 * sent as HTTP basic authentication.
 * @param key the key that is sent as a bearer token; undefined: none
 * @throws ERR_BLOCKSTEP_BAD_ARG; the message contains no credentials
 */
export function readServerUrl(text: string, key: string | undefined): ServerUrl {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw badArgument('--url', show(withoutCredentials(text)), 'an address such as http://127.0.0.1:8000');
  const { username, password, search, hash } = url;
  if (search !== '' || hash !== '')
    throw badArgument('--url', show(withoutCredentials(text)), 'an address without ? and #');
  const hasUser = username !== '' || password !== '';
  if (hasUser && key !== undefined)
    throw badArgument('--url', 'one with them', 'an address without user and password where there is a key');
  // Node's own message would print the key.
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key))
    throw badArgument('--api-key', 'one with others', 'of visible ASCII characters');
  const base = url.origin + url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  if (key !== undefined) return { base, authorization: `Bearer ${key}` };
  const user = `${decoded(username)}:${decoded(password)}`;
  return { base, authorization: hasUser ? `Basic ${Buffer.from(user).toString('base64')}` : null };
}

/** An address, valid or not, without a possible user and password. */
export function withoutCredentials(text: string): string {
  return text.replace(/^([^/?#]*\/\/)?[^/?#]*@/, '$1');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
