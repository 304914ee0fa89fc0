/** How a call of a server failed, in a few words by which failures are counted; `status 500` has the status that came. */
export type FailureKind =
  | 'unreachable'
  | 'timed out'
  | 'broken off'
  | 'no event stream'
  | 'unreadable'
  | 'error while streaming'
  | `status ${number}`;

/** Statuses that every further call would get too: the key, the model or the address is wrong. */
const HOPELESS: readonly FailureKind[] = ['status 401', 'status 403', 'status 404', 'no event stream'];

/** Why a call of a server failed. */
export class CallFailure {
  readonly kind: FailureKind;
  /** In words, with what the server said. */
  readonly message: string;

  constructor(kind: FailureKind, message: string) {
    this.kind = kind;
    this.message = message;
  }

  /** Whether the server has refused the request because it has too much to do: status 429. */
  get isRefusal(): boolean {
    return this.kind === 'status 429';
  }

  /** Whether every other call will fail in the same way. */
  get isHopeless(): boolean {
    return HOPELESS.includes(this.kind);
  }
}

const MOST_WORDS = 200;

/** A status as a failure, with what the body of the answer says. */
export function statusFailure(status: number, body: string): CallFailure {
  const said = wordsOf(body);
  return new CallFailure(`status ${status}`, `status ${status}${said === '' ? '' : `: ${said}`}`);
}

/** What the body of an error says: the message of OpenAI's form, or of others; else the beginning of the text itself. */
export function wordsOf(body: string): string {
  let words: unknown = body;
  try {
    words = messageIn(JSON.parse(body)) ?? body;
  } catch {
    // Proxies answer with pages.
  }
  const line = oneLine(String(words));
  return line.length > MOST_WORDS ? `${line.slice(0, MOST_WORDS - 3)}...` : line;
}

/** A text of somebody else's as a line that a terminal only shows: without control characters. */
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
