/** A server of Node alone, `node:http`: writes the bytes that ours writes, one `write` for each stream and step: `plain.js PACE_MS`. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ServerMessage } from './messages.js';
import { SelfWatch } from './window.js';

const pace = Number(process.argv[2]);
let numTokens = 0;
const watch = new SelfWatch(() => numTokens);
void watch;

interface Stream {
  readonly response: ServerResponse;
  readonly start: string;
  isBlocked: boolean;
}

const streams = new Set<Stream>();
const END = ',"logprobs":null,"finish_reason":null}]}\n\n';

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
    });
    const id = `cmpl-${'0'.repeat(24)}${String(numTokens).padStart(8, '0').slice(-8)}`;
    const start = `data: {"id":"${id}","object":"text_completion","created":1795424815,"model":"llama-3.1-8b","choices":[{"index":0,"text":`;
    const stream = { response, start, isBlocked: false };
    streams.add(stream);
    response.on('close', () => streams.delete(stream));
  });
});

function step(): void {
  for (const stream of streams) {
    numTokens++;
    if (stream.isBlocked) continue;
    const goesOn = stream.response.write(stream.start + JSON.stringify(' word') + END);
    if (goesOn) continue;
    stream.isBlocked = true;
    stream.response.once('drain', () => {
      stream.isBlocked = false;
    });
  }
  if (pace > 0) setTimeout(step, pace);
  else setImmediate(step);
}

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ kind: 'ready', port } satisfies ServerMessage);
  step();
});
