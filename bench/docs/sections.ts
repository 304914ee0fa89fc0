import { markdown } from '../rows/table.js';
import type { Figures } from './figures.js';

/**
 * The sections of the page. The words here have no figure that was measured: those come from the result alone.
 * @param part what a program of the benchmark printed, by its name
 */
export function describeSections(figures: Figures, part: (name: string) => string): string[] {
  return [
    decode(figures),
    lives(figures),
    operations(figures),
    engine(figures),
    server(part),
    groups(figures),
    transfers(figures),
    offload(part),
    connectors(part),
    store(part),
    lease(part),
    pipelines(part),
    budgets(figures),
  ];
}

function decode(figures: Figures): string {
  const rows = figures
    .times('decode')
    .map((name) => [
      name,
      ...(['min', 'p50', 'p90', 'p99'] as const).map((percentile) => figures.of('decode', name, percentile)),
      figures.perRequest('decode', name),
    ]);
  return `## A step of the scheduler

A whole step is \`schedule()\` and \`update()\`. Prompts have 512 tokens, blocks 16. "Evicting" means that each new block was a cached
one, "depth 2" two steps in flight, "drafts 3" three speculative tokens per request, "64 transfers" 32 loads and 32 sends in flight.

${markdown(['running decodes', 'min', 'p50', 'p90', 'p99', 'p50 per request'], rows)}

A mixed step (budget 8,192 tokens, 256 sequences, prompts of 512 to 2,048 tokens, outputs of 64 to 256, 16 requests waiting) takes
${figures.value('mixed', 'step')} at the median and ${figures.of('mixed', 'step', 'p99')} at p99. For comparison: a bare TypeScript loop with the branches of a decode over 256
request objects took ${figures.bareLoop()} in the same run, and an empty call into native code ${figures.value('calibration', 'empty native call')}. A step of 256 allocates
${figures.value('heap', 'step of 256')} bytes of the JavaScript heap in all, and ${figures.value('heap', 'step, per request')} for each request more; a figure around 0 says that none was found.`;
}

function lives(figures: Figures): string {
  const parts = ['steps 1 to 100', 'steps 101 to 1000', 'steps 1001 to 2500'];
  const rows = [1, 2, 3, 4, 5, 6].map((life) => [
    `scheduler ${life}`,
    ...parts.map((steps) => figures.value('lives', `scheduler ${life}, ${steps}`)),
  ]);
  return `## Schedulers made in a loop

The mean of a step of 64 decodes, in schedulers that one process makes and disposes one after another. V8 compiles a step in the
first of them, and again where a later one is unlike those before.

${markdown(['', ...parts], rows)}`;
}

function operations(figures: Figures): string {
  const sizes = ['10k', '100k', '1M'];
  const kinds: [string, string, string][] = [
    ['cold allocate, no eviction', 'cold allocate', 'empty'],
    ['cold allocate, every block evicts a cached one', 'cold allocate', 'cached'],
    ['full hit, no eviction', 'full hit', 'empty'],
    ['full hit, free queue full of cached blocks', 'full hit', 'cached'],
    ['release, no eviction', 'release', 'empty'],
    ['release, free queue full of cached blocks', 'release', 'cached'],
  ];
  const rows = kinds.map(([words, what, queue]) => [
    words,
    ...sizes.map((size) => figures.value('operations', `${what}, ${size} ${queue}`)),
  ]);
  return `## Single operations

Of a request of 2,048 tokens, which has 128 blocks, by the size of the pool:

${markdown(['', '10k blocks', '100k', '1M'], rows)}

Adding such a request takes ${figures.value('operations', 'Scheduler.add, hashing')} with hashing and ${figures.value('operations', 'Scheduler.add, caching off')} without prefix caching. An added request holds
${figures.value('heap', 'held by an added request')} bytes of the JavaScript heap. Gathering the tables of a step for a model takes ${figures.value('tables', 'gather, 256')} for 256 rows and
${figures.value('tables', 'gather, 1024')} for 1,024.`;
}

function engine(figures: Figures): string {
  const sizes = [1, 64, 256, 1024];
  const value = (name: string): string => figures.value('engine', name);
  const rows = sizes.map((size) => [
    String(size),
    value(`bare scheduler, ${size}`),
    value(`step, ${size}`),
    value(`step with tables, ${size}`),
    ...['every chunk', 'by a listener', 'result only'].map((reading) => value(`${size} streams, ${reading}`)),
    value(`${size} streams, every chunk: event loop delay p99`),
  ]);
  const apart = (reading: string): string[] => {
    const name = `256 streams, ${reading}: step to step`;
    return [reading, figures.of('engine', name, 'p50'), figures.of('engine', name, 'p99')];
  };
  return `## The engine

With an executor that does nothing: p50 of a step; tokens per second through \`submit\`, read by one \`for await\` per stream, by a
listener (\`onOutput\` and \`take\`, as the server reads), and where only \`result()\` is awaited; delay of the event loop in
milliseconds with \`for await\`.

${markdown(['streams', 'bare scheduler', 'engine', 'with tables', 'tokens/s, every chunk', 'by a listener', 'result only', 'loop delay p99, ms'], rows)}

From step to step with 256 streams, by how they are read:

${markdown(['', 'p50', 'p99'], ['every chunk', 'by a listener', 'every chunk, with garbage'].map(apart))}`;
}

function server(part: (name: string) => string): string {
  return `## The server

What a token costs between the executor's answer and the socket, with the engine, the text made of tokens, and the events. Beside it a
server of \`node:http\` alone that writes the same bytes, our server over a scheduler that does nothing (every stream has a token every
step, and there is no executor), and, where it is installed, what vLLM's front end is made of: FastAPI on uvicorn, which has no engine
and makes no text. The server has one core and the clients another; the servers take turns. First tokens are of streams that are all
opened at once.

${part('serve')}

Most of the time is the kernel's sending of one message for each token, which \`node:http\` needs too. \`--stream-interval 4\` sends a
fourth of them.`;
}

function groups(figures: Figures): string {
  const names = figures.times('kv-groups').filter((name) => !name.endsWith(', 1 group'));
  const rows = names.map((name) => [
    name,
    figures.value('kv-groups', name),
    figures.ratio('kv-groups', name, name.replace(/, [^,]*$/, ', 1 group')),
  ]);
  return `## KV cache groups

A decode step of 256 requests, and \`schedule()\` with a prompt of 126,000 tokens that every group has cached. Goals: 1.5 times one group
for two groups, 2 for four, and 2 for a hit of two.

${markdown(['', 'µs', 'over one group'], rows)}`;
}

function transfers(figures: Figures): string {
  const value = (name: string): string => figures.value('transfers', name);
  const sizes = ['4 KiB', '16 KiB', '64 KiB', '256 KiB', '1 MiB'];
  const lane = (how: string): string[] => [
    how,
    ...sizes.map((size) => value(`lane / memcpy, ${size} ${how}`)),
  ];
  return `## KV transfers

A decode step of 256 with 64 transfers in flight takes ${figures.ratio('decode', '256, 64 transfers', '256')} times the step without. Draining 1,000 completions takes
${value('drain 1,000')}; ${value('drain 0 of 1,000')} where none of 1,000 has ended. Submitting a copy of one block takes ${value('submit 1 block')}, of 128 blocks
${value('submit 128 blocks')}, and ${value('submit 1 block to an idle lane')} to a lane that sleeps.

The throughput of a host lane over that of \`memcpy\`, of the same blocks one by one where they are scattered, of all in one where they
are one run:

${markdown(['bytes of a block', ...sizes], [lane('scattered'), lane('in one run')])}`;
}

function offload(part: (name: string) => string): string {
  return `## Offload

What an [offload](connectors.md#offload) to host memory brings and costs, beside the pool alone.

First in virtual time: steps take what the cost model says (an 8B model on one H100), and copies take time too: 25 GB/s in each direction
for blocks of 2 MiB, assumed and not measured. Copies and steps do not slow each other down in this model. The pool has 28,000 blocks of 16
tokens. Requests of 4,096 tokens in and 64 out, 32 at once, each with one of so many prompts, drawn at random, that these fill the pool
half, once, threefold and tenfold; the host tier has room for 16 pools. Then in real time, with the reference executor and host lanes that really
copy: 512 tokens in and 16 out, 8 at once, a pool of 512 blocks. Alone the reference executor computes a prompt faster than anything can
be moved, so there an offload only costs. "With device time" each step also takes the time that the cost model says.

${part('offload')}

Production traces in virtual time. Mooncake's conversations run at a quarter of their speed, since one such GPU cannot serve them faster.
Azure's trace does not say which prompts begin alike, so nothing can be found there.

${part('mooncake-4')}

${part('mooncake-12')}

${part('azure')}

What a decode step costs with each connector stands [below](#what-a-decode-step-costs).`;
}

function connectors(part: (name: string) => string): string {
  return `## What a decode step costs

A decode step of 256 requests in an engine whose executor does nothing. Every case has a process of its own; the cases take turns, and the
round with the best median counts. "Alike": all requests say the same and fill their blocks in the same step, so there is hardly anything to
store, and a case is idle. "Spread": 16 blocks are filled in every step, and a case is at work. "Processor" is the time for which the
engine's own thread ran. Goals: 1.05 idle and 1.2 at work, over the engine without a connector. The ratios scatter: that of a connector
which does nothing says how much. One step in eight looks at all requests (\`storeEvery\`), which the mean shows.

${part('steps')}

Without a pause; cases whose threads could not keep up with steps that take no time are left out:

${part('steps-without-pause')}`;
}

function store(part: (name: string) => string): string {
  return `## A store outside of the engine

Blocks go by the store's thread, with a checksum over each; the best of three rounds for each side, which take turns. Beside a file alone
(no thread, no key, no checksum, the same memory again and again), and beside \`redis-benchmark\` with
values of that size, which is a program in C and sends the same value again and again. Goal: 0.8 of it. Then the delay of the event loop
while blocks move, and what it would be without the thread.

${part('store')}`;
}

function lease(part: (name: string) => string): string {
  return `## Handing KV over

From \`submit\` in one process to its first token, with the KV of the prompt loaded from another process of the machine, by a model that
takes no time; 16 KiB of KV per token, medians. "memcpy" copies as many bytes within one process, in the same minute. An engine that only
waits looks after its transfers once a millisecond; a short hand-over pays that several times.

${part('lease')}`;
}

function pipelines(part: (name: string) => string): string {
  return `## Pipelines

Chunks of 16 tokens, with up to 1,024 on their way, and one that goes alone (median); both ends in one process, the server at a Unix
socket. The bare client adds one entry for each chunk, by automatic pipelining, and acknowledges and removes what it has read, as the
transport does. Then requests of 128 tokens, 64 at a time, through stages whose executors answer at once, so this is all overhead. Each
stage answers a chunk of 16 tokens with 16. All engines share one process and one thread; over Redis each message goes by way of the
server. A stage reads its engine's tokens as they come, so it can be compared with the engine that is read so. The best of five rounds.

${part('pipeline')}`;
}

function budgets(figures: Figures): string {
  return `## Against our budgets

The budgets are those that we set ourselves before anything was built. One that is missed stays, and is said to be missed.

${markdown(['budget', 'limit', 'measured', ''], figures.budgets())}`;
}
