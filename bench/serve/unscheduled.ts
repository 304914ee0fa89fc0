/**
 * Our server over a scheduler that does nothing: `unscheduled.js PACE_MS STREAMS`. Every stream has
 * a token every step, without blocks, plans, or an executor. The difference between its cost and
 * that of `ours.js` is the cost of the engine.
 */
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import type { Engine, EngineOutputs, RequestStream } from '../../src/index.js';
import type { Chat } from '../../src/serve/api/chat.js';
import { plainChatText } from '../../src/serve/api/chat-message.js';
import { Encoder } from '../../src/serve/api/encoder.js';
import { o200k } from '../../src/serve/index.js';
import { RequestLog } from '../../src/serve/log/request-log.js';
import { Choices } from '../../src/serve/reply/choices.js';
import { addGenerateRoutes } from '../../src/serve/server/generate-routes.js';
import { LiveRequests } from '../../src/serve/server/live-requests.js';
import type { ServeSettings } from '../../src/serve/server/options.js';
import type { ServerMessage } from './messages.js';
import { SelfWatch } from './window.js';

const pace = Number(process.argv[2]);
const encoder = new Encoder(o200k, 2 ** 30);
const [TOKEN] = o200k.encode(' word');
const streams = new Set<Stream>();
let numTokens = 0;
const watch = new SelfWatch(() => numTokens);
void watch;

/** The part of a `RequestStream` that the server needs. */
class Stream {
  readonly id: string;

  constructor(id: string) {
    this.id = id;
    streams.add(this);
  }

  abort(): void {
    streams.delete(this);
  }

  result(): Promise<never> {
    return new Promise(() => {});
  }
}

/** The outputs of a step: a token for each stream. */
function outputsOf(): EngineOutputs {
  const length = streams.size;
  return {
    length,
    requests: [...streams] as unknown as EngineOutputs['requests'],
    tokens: new Int32Array(length).fill(TOKEN),
    tokenOffsets: Int32Array.from({ length: length + 1 }, (_, i) => i),
    extras: null,
    ends: new Array(length).fill(null),
  };
}

let tell: (outputs: EngineOutputs) => void = () => {};

async function* outputs(): AsyncGenerator<EngineOutputs> {
  for (;;)
    yield await new Promise<EngineOutputs>((resolve) => {
      tell = resolve;
    });
}

const engine = {
  submit: ({ id }: { id: string }) => new Stream(id) as unknown as RequestStream,
  outputs,
} as unknown as Engine;
const settings = {
  engine,
  model: {
    id: 'llama-3.1-8b',
    vocabulary: o200k,
    encoder,
    chatPrompt: ({ messages }: Chat) => encoder.encode('messages', plainChatText(messages)),
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
  numTokens += streams.size;
  tell(outputsOf());
  if (pace > 0) setTimeout(step, pace);
  else setImmediate(step);
}

const app = fastify({ forceCloseConnections: true });
addGenerateRoutes(app, settings, {
  watch: null,
  log: new RequestLog(null),
  live: new LiveRequests(),
  choices: new Choices(engine),
});
await app.listen({ port: 0, host: '127.0.0.1' });
const { port } = app.server.address() as AddressInfo;
process.send?.({ kind: 'ready', port } satisfies ServerMessage);
step();
