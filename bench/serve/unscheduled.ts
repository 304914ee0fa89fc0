/**
 * Our server over a scheduler that does nothing: `unscheduled.js PACE_MS STREAMS`. Every stream has a token every step, without blocks, plans, or an
 * executor. What it costs less than `ours.js` is what the engine costs.
 */
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import type { Engine, RequestOutput, RequestStream } from '../../src/index.js';
import type { Chat } from '../../src/serve/api/chat.js';
import { plainChatPrompt } from '../../src/serve/api/chat-message.js';
import { o200k } from '../../src/serve/index.js';
import { addGenerateRoutes } from '../../src/serve/server/generate-routes.js';
import { LiveRequests } from '../../src/serve/server/live-requests.js';
import type { ServeSettings } from '../../src/serve/server/options.js';
import type { ServerMessage } from './messages.js';
import { SelfWatch } from './window.js';

const pace = Number(process.argv[2]);
const TOKENS = Int32Array.of(o200k.encode(' word')[0]);
const streams = new Set<Stream>();
let numTokens = 0;
const watch = new SelfWatch(() => numTokens);
void watch;

/** What the server needs of a `RequestStream`. */
class Stream {
  readonly id: string;
  numOutputTokens = 0;
  listener: () => void = () => {};
  #isNew = false;

  constructor(id: string) {
    this.id = id;
    streams.add(this);
  }

  step(): void {
    this.#isNew = true;
    this.numOutputTokens++;
    numTokens++;
  }

  onOutput(listener: () => void): void {
    this.listener = listener;
  }

  take(): RequestOutput | null {
    if (!this.#isNew) return null;
    this.#isNew = false;
    const { numOutputTokens } = this;
    return { tokens: TOKENS, finishReason: null, stopReason: null, numOutputTokens } as RequestOutput;
  }

  abort(): void {
    streams.delete(this);
  }

  result(): Promise<never> {
    return new Promise(() => {});
  }
}

const engine = { submit: ({ id }: { id: string }) => new Stream(id) as unknown as RequestStream };
const settings = {
  engine: engine as unknown as Engine,
  model: {
    id: 'llama-3.1-8b',
    vocabulary: o200k,
    chatPrompt: ({ messages }: Chat) => plainChatPrompt(messages, o200k),
    hasTemplate: false,
    sampling: [],
    samplingDefaults: {},
    grammar: null,
    created: 0,
    maxModelLen: 2 ** 30,
  },
  maxChoices: 128,
  streamInterval: 1,
} as unknown as ServeSettings;

function step(): void {
  for (const stream of streams) stream.step();
  // As the engine does it: the readers come when the step is over.
  queueMicrotask(() => {
    for (const stream of streams) stream.listener();
  });
  if (pace > 0) setTimeout(step, pace);
  else setImmediate(step);
}

const app = fastify({ forceCloseConnections: true });
addGenerateRoutes(app, settings, { watch: null, live: new LiveRequests() });
await app.listen({ port: 0, host: '127.0.0.1' });
const { port } = app.server.address() as AddressInfo;
process.send?.({ kind: 'ready', port } satisfies ServerMessage);
step();
