/** The storage name of the key, which is kept for this tab only, as long as it is open. */
const KEY = 'blockstep-key';

/** An error response of the server. Its message is for people. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * The server that this page came from. Its routes are named relative to the page, so the page may
 * have any prefix.
 */
export class Server {
  /** Called with the server's message when the server requires a key, or another key. */
  onKeyNeeded: (why: string) => void = () => {};

  get hasKey(): boolean {
    return sessionStorage.getItem(KEY) !== null;
  }

  useKey(key: string): void {
    sessionStorage.setItem(KEY, key);
  }

  /**
   * @throws Refusal, TypeError if the server cannot be reached, or the reason with which `signal`
   * was aborted
   */
  async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    const key = sessionStorage.getItem(KEY);
    if (key !== null) headers.set('authorization', `Bearer ${key}`);
    const response = await fetch(path, { ...init, headers, cache: 'no-store' });
    if (response.ok || response.status === 304) return response;
    const refusal = new Refusal(response.status, await messageOf(response));
    // A late answer to an older key must not remove the key that was entered since.
    if (response.status === 401 && sessionStorage.getItem(KEY) === key) {
      sessionStorage.removeItem(KEY);
      this.onKeyNeeded(key === null ? '' : refusal.message);
    }
    throw refusal;
  }

  async get<T>(path: string): Promise<T> {
    return (await (await this.ask(path)).json()) as T;
  }

  /** @param signal ends the request and the work of the server for it */
  post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
    return this.ask(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      ...(signal !== undefined && { signal }),
    });
  }
}

async function messageOf(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { error: { message: string } };
    return error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}
