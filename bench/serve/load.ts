/**
 * The clients, in a process of their own: `load.js PORT STREAMS TOKENS`. Each opens a connection, asks for a text, and reads it. It measures between
 * the messages `begin` and `end`; the first tokens are measured from the start.
 */
import { connect } from 'node:net';
import { type ClientWindow, quantile } from './messages.js';

const [port, numStreams, maxTokens] = process.argv.slice(2).map(Number);
const BODY = JSON.stringify({
  model: 'llama-3.1-8b',
  prompt: 'one two three four five six seven eight',
  max_tokens: maxTokens,
  ignore_eos: true,
  stream: true,
});
const REQUEST = `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
const MOST_SAMPLES = 2_000_000;

const firsts: number[] = [];
let between: number[] = [];
let isMeasured = false;

for (let i = 0; i < numStreams; i++) {
  let askedAt = 0;
  let lastAt = 0;
  const socket = connect(port, '127.0.0.1', () => {
    askedAt = performance.now();
    socket.write(REQUEST);
  });
  socket.on('data', (bytes) => {
    const now = performance.now();
    if (lastAt === 0) {
      // Otherwise the benchmark would wait for tokens that never come.
      if (bytes.includes('HTTP/1.1 ') && !bytes.includes('HTTP/1.1 200'))
        throw new Error(`the server refused a stream: ${bytes.toString()}`);
      // The head of the response may come by itself.
      if (!bytes.includes('data: ')) return;
      firsts.push(now - askedAt);
      if (firsts.length === numStreams) process.send?.('streaming');
    } else if (isMeasured && between.length < MOST_SAMPLES) between.push(now - lastAt);
    lastAt = now;
  });
  socket.on('error', () => {});
}

process.on('message', (message) => {
  if (message === 'begin') {
    isMeasured = true;
    return;
  }
  isMeasured = false;
  const [first, gaps] = [firsts, between].map((each) => each.sort((a, b) => a - b));
  between = [];
  const window: ClientWindow = {
    firstP50: quantile(first, 0.5),
    firstP99: quantile(first, 0.99),
    betweenP50: quantile(gaps, 0.5),
    betweenP99: quantile(gaps, 0.99),
  };
  process.send?.(window);
});
process.on('disconnect', () => process.exit(0));
