/**
 * How a call of a server failed, in a few words. Failures are counted by this kind; `status 500`
 * has the HTTP status.
 */
export type FailureKind =
  | 'unreachable'
  | 'timed out'
  | 'broken off'
  | 'no event stream'
  | 'unreadable'
  | 'error while streaming'
  | `status ${number}`;

/** Failures that every further call would meet too: the key, the model or the address is wrong. */
const HOPELESS: readonly FailureKind[] = ['status 401', 'status 403', 'status 404', 'no event stream'];

/** Why a call of a server failed. */
export class CallFailure {
  readonly kind: FailureKind;
  /** In words, with the server's message. */
  readonly message: string;

  constructor(kind: FailureKind, message: string) {
    this.kind = kind;
    this.message = message;
  }

  /** Whether the server refused the request because of overload: status 429. */
  get isRefusal(): boolean {
    return this.kind === 'status 429';
  }

  /** Whether every other call will fail in the same way. */
  get isHopeless(): boolean {
    return HOPELESS.includes(this.kind);
  }
}

const MOST_WORDS = 200;

/** A failure from a status and the body of the answer. */
export function statusFailure(status: number, body: string): CallFailure {
  const said = wordsOf(body);
  return new CallFailure(`status ${status}`, `status ${status}${said === '' ? '' : `: ${said}`}`);
}

/**
 * The message in the body of an error, in OpenAI's or another form; else the beginning of the body.
 */
export function wordsOf(body: string): string {
  let words: unknown = body;
  try {
    words = messageIn(JSON.parse(body)) ?? body;
  } catch {
    // Proxies answer with HTML pages.
  }
  const line = oneLine(String(words));
  return line.length > MOST_WORDS ? `${line.slice(0, MOST_WORDS - 3)}...` : line;
}

/** Makes a foreign text one printable line without control characters. */
export function oneLine(text: string): string {
  return text.replace(/[\p{C}\s]+/gu, ' ').trim();
}

function messageIn(body: unknown): string | null {
  if (typeof body === 'string') return body;
  if (typeof body !== 'object' || body === null) return null;
  const { error, message, detail } = body as Record<string, unknown>;
  for (const each of [message, error, detail]) {
    const found = each === undefined ? null : messageIn(each);
    if (found !== null) return found;
  }
  return null;
}
