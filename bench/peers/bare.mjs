// A peer without a scheduler: it counts tokens, in first come first served order, and keeps no blocks, hashes or prefixes. So it
// shows what the pipe costs, and about the least that a peer can be. The protocol is in README.md.
import { createInterface } from 'node:readline';

let limits;
let waiting;
let running;

/** One step. Returns [requests, tokens, outputs], and adds the ids that ended to `ended`. */
function step(ended) {
  while (running.length < limits.maxRunning && waiting.length > 0) running.push(waiting.shift());
  let left = limits.maxTokensPerStep;
  let requests = 0;
  let outputs = 0;
  let anyEnded = false;
  for (const request of running) {
    const tokens = Math.min(request.tokens - request.computed, left);
    if (tokens === 0) break;
    left -= tokens;
    requests++;
    request.computed += tokens;
    if (request.computed < request.tokens) continue;
    outputs++;
    request.tokens++;
    if (request.tokens < request.limit) continue;
    ended.push(request.id);
    anyEnded = true;
  }
  if (anyEnded) running = running.filter((request) => request.tokens < request.limit);
  return [requests, limits.maxTokensPerStep - left, outputs];
}

const answers = {
  hello: () => ({ name: 'bare loop' }),
  open: (message) => {
    limits = message;
    waiting = [];
    running = [];
    return {};
  },
  add: ({ requests }) => {
    const us = requests.map(({ id, prompt, maxTokens }) => {
      const start = performance.now();
      waiting.push({ id, tokens: prompt.length, computed: 0, limit: prompt.length + maxTokens });
      return (performance.now() - start) * 1000;
    });
    return { us };
  },
  step: ({ count }) => {
    const answer = { requests: [], tokens: [], outputs: [], ended: [], us: [] };
    for (let i = 0; i < count; i++) {
      const start = performance.now();
      const [requests, tokens, outputs] = step(answer.ended);
      answer.us.push((performance.now() - start) * 1000);
      answer.requests.push(requests);
      answer.tokens.push(tokens);
      answer.outputs.push(outputs);
    }
    return answer;
  },
  close: () => {
    setImmediate(() => process.exit(0));
    return {};
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  const answer = answers[message.op]?.(message) ?? { error: `unknown op ${message.op}` };
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
