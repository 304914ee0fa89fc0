import { element, say, wordsOf } from './elements.js';
import type { Server } from './server.js';

/** The number of characters of an answer that are shown, from its beginning. */
const MOST_SHOWN = 200_000;

/** The shown fields of an event of a streamed answer. */
interface Chunk {
  readonly id?: string;
  readonly choices?: readonly { readonly text: string; readonly finish_reason: string | null }[];
  readonly error?: { readonly message: string };
}

/** The form that starts a request, and the text that the request streams. */
export class Starter {
  readonly #server: Server;
  readonly #start = element('start', HTMLButtonElement);
  readonly #stop = element('stop', HTMLButtonElement);
  readonly #answer = element('answer', HTMLPreElement);
  #abort: AbortController | null = null;
  /** Called with the id of the request when its first text has come. */
  onStarted: (id: string) => void = () => {};

  constructor(server: Server) {
    this.#server = server;
    element('start-form', HTMLFormElement).addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#run();
    });
    this.#stop.addEventListener('click', () => this.#abort?.abort());
  }

  async #run(): Promise<void> {
    if (this.#abort !== null) return;
    this.#abort = new AbortController();
    this.#start.disabled = true;
    this.#stop.disabled = false;
    this.#answer.textContent = '';
    say('start-note', 'starting');
    try {
      say('start-note', `ended: ${await this.#stream(this.#abort.signal)}`);
    } catch (error) {
      say('start-note', this.#abort.signal.aborted ? 'aborted' : `failed: ${wordsOf(error)}`);
    } finally {
      this.#abort = null;
      this.#start.disabled = false;
      this.#stop.disabled = true;
    }
  }

  /** @returns why the answer ended */
  async #stream(signal: AbortSignal): Promise<string> {
    const body = {
      prompt: element('prompt', HTMLTextAreaElement).value,
      max_tokens: element('max-tokens', HTMLInputElement).valueAsNumber,
      stream: true,
    };
    const response = await this.#server.post('v1/completions', body, signal);
    const text = this.#answer.appendChild(document.createTextNode(''));
    let reason = 'cut off';
    let isFirst = true;
    for await (const chunk of chunksOf(response)) {
      if (chunk.error !== undefined) throw new Error(chunk.error.message);
      const [choice] = chunk.choices ?? [];
      if (choice === undefined) continue;
      if (isFirst && chunk.id !== undefined) {
        isFirst = false;
        say('start-note', 'running');
        this.onStarted(`${chunk.id}-0`);
      }
      if (text.length < MOST_SHOWN) text.appendData(choice.text);
      this.#answer.scrollTop = this.#answer.scrollHeight;
      reason = choice.finish_reason ?? reason;
    }
    return reason;
  }
}

/** The events of a streamed response, up to its end. */
async function* chunksOf(response: Response): AsyncGenerator<Chunk> {
  const reader = (response.body as ReadableStream<BufferSource>)
    .pipeThrough(new TextDecoderStream())
    .getReader();
  let rest = '';
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const events = (rest + piece.value).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      if (event === 'data: [DONE]') return;
      if (event.startsWith('data: ')) yield JSON.parse(event.slice(6)) as Chunk;
    }
  }
}
