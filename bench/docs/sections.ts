// The words of docs/benchmarks.md.
import { markdown } from '../rows/table.js';
import type { Figures } from './figures.js';

/**
 * The sections of the page. The words here have no figure that was measured: those come from the result alone.
 * @param part the output of a program of the benchmark, by its name
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

A whole step is \`schedule()\` and \`update()\`. Prompts have 512 tokens, and blocks have 16. The names of the rows:

- "evicting": each new block evicts a cached block;
- "depth 2": two steps are in flight;
- "drafts 3": three speculative tokens per request;
- "64 transfers": 32 loads and 32 sends are in flight.

${markdown(['running decodes', 'min', 'p50', 'p90', 'p99', 'p50 per request'], rows)}

A mixed step takes ${figures.value('mixed', 'step')} at the median and ${figures.of('mixed', 'step', 'p99')} at p99. Its budget is 8,192 tokens for 256 sequences, with
prompts of 512 to 2,048 tokens, outputs of 64 to 256, and 16 waiting requests.

For comparison, in the same run: a bare TypeScript loop over 256 request objects, with the branches
of a decode, took ${figures.bareLoop()}. An empty call into native code took ${figures.value('calibration', 'empty native call')}.

A step of 256 allocates ${figures.value('heap', 'step of 256')} bytes of the JavaScript heap in all, and ${figures.value('heap', 'step, per request')} more for each
further request. A figure around 0 means that the run found no allocation.`;
}

function lives(figures: Figures): string {
  const parts = ['steps 1 to 100', 'steps 101 to 1000', 'steps 1001 to 2500'];
  const rows = [1, 2, 3, 4, 5, 6].map((life) => [
    `scheduler ${life}`,
    ...parts.map((steps) => figures.value('lives', `scheduler ${life}, ${steps}`)),
  ]);
  return `## Schedulers made in a loop

One process makes and disposes schedulers one after another. The table has the mean time of a step
of 64 decodes in each scheduler. V8 compiles the step in the first scheduler, and again if a later
scheduler differs.

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

The times are for a request of 2,048 tokens, which is 128 blocks. The columns are sizes of the pool:

${markdown(['', '10k blocks', '100k', '1M'], rows)}

Adding such a request takes ${figures.value('operations', 'Scheduler.add, hashing')} with hashing and ${figures.value('operations', 'Scheduler.add, caching off')} without prefix caching. An added
request holds ${figures.value('heap', 'held by an added request')} bytes of the JavaScript heap. Gathering the tables of a step for a model
takes ${figures.value('tables', 'gather, 256')} for 256 rows and ${figures.value('tables', 'gather, 1024')} for 1,024.`;
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

The executor of this measurement does nothing. The columns "bare scheduler", "engine" and "with
tables" have the p50 of a step. The next three have tokens per second through \`submit\`. The reader is one
\`for await\` per stream, a listener (\`onOutput\` and \`read\`, as in the server), or only \`result()\`.
The last column has the delay of the event loop with \`for await\`.

${markdown(['streams', 'bare scheduler', 'engine', 'with tables', 'tokens/s, every chunk', 'by a listener', 'result only', 'loop delay p99, ms'], rows)}

The time from step to step with 256 streams, by how they are read. "With garbage" means that the
reader makes a text and an event of each chunk, as a server does:

${markdown(['', 'p50', 'p99'], ['every chunk', 'by a listener', 'every chunk, with garbage'].map(apart))}`;
}

function server(part: (name: string) => string): string {
  return `## The server

The tables have the cost of a token between the executor's answer and the socket. This cost includes
the engine, the text of the tokens, and the events. Three other servers are measured beside
blockstep's:

- \`node:http\` alone, which writes the same bytes;
- "without a scheduler": blockstep's server over a scheduler that does nothing and has no executor,
  so every stream has a token in every step;
- if it is installed, FastAPI on uvicorn, the base of vLLM's front end, without an engine and without
  making text.

The server has one core, and the clients another. The servers take turns. For the first token, all
streams are opened at once. Some columns of the tables:

- "over plain": the processor time of a token, divided by that of \`node:http\`;
- "first" and "between": the time to the first token, and between two tokens of a stream;
- "executor idle": the time from an answer of the executor to its next step.

${part('serve')}

Most of the time goes into the kernel: it sends one message for each token, and \`node:http\` needs that
too. \`--stream-interval 4\` sends a fourth of the messages.`;
}

function groups(figures: Figures): string {
  const names = figures.times('kv-groups').filter((name) => !name.endsWith(', 1 group'));
  const rows = names.map((name) => [
    name,
    figures.value('kv-groups', name),
    figures.ratio('kv-groups', name, name.replace(/, [^,]*$/, ', 1 group')),
  ]);
  return `## KV cache groups

The table has a decode step of 256 requests, and \`schedule()\` with a prompt of 126,000 tokens that
every group has cached. "Over one group" is the time divided by the time with one group. Goals: 1.5
with two groups, 2 with four groups, and 2 for a hit with two groups. They were set when a step with
one group took more than twice as long.

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

A decode step of 256 with 64 transfers in flight takes ${figures.ratio('decode', '256, 64 transfers', '256')} times as long as without transfers.
Draining 1,000 completions takes ${value('drain 1,000')}, or ${value('drain 0 of 1,000')} if none of the 1,000 has ended. Submitting a copy of
one block takes ${value('submit 1 block')}, of 128 blocks ${value('submit 128 blocks')}, and of one block to a sleeping lane ${value('submit 1 block to an idle lane')}.

The table has the throughput of a host [lane](glossary.md), divided by that of \`memcpy\`. Scattered
blocks are compared with one \`memcpy\` per block. Blocks in one run are compared with one \`memcpy\` of
all blocks:

${markdown(['bytes of a block', ...sizes], [lane('scattered'), lane('in one run')])}`;
}

function offload(part: (name: string) => string): string {
  return `## Offload

The gain and the cost of an [offload](connectors.md#offload) to host memory, beside the pool alone.

**In virtual time.** A step takes the time of the cost model, for an 8B model on one H100. A copy
takes the time of 25 GB/s in each direction, with blocks of 2 MiB. That rate is assumed, not
measured. Copies and steps do not slow each other down in this model.

- The pool has 28,000 blocks of 16 tokens; the host tier has room for 16 pools.
- Requests have 4,096 tokens in and 64 out, 32 at once.
- Each request draws its prompt at random. All prompts together, the working set, fill the pool half,
  once, threefold and tenfold (the column "pools").

**In real time**, with the reference executor and host lanes that really copy. Requests have 512 tokens
in and 16 out, 8 run at once, and the pool has 512 blocks. The reference executor computes a prompt faster than any copy
could move it, so an offload only costs here. "With device time" adds the time of the cost model to
each step.

${part('offload')}

Production traces in virtual time. Mooncake's conversations run at a quarter of their speed, since one
such GPU cannot serve them faster. Azure's trace does not say which prompts share a prefix, so there
are no hits.

${part('mooncake-4')}

${part('mooncake-12')}

${part('azure')}

The cost of a decode step with each connector is [below](#what-a-decode-step-costs).`;
}

function connectors(part: (name: string) => string): string {
  return `## What a decode step costs

A decode step of 256 requests in an engine whose executor does nothing. Every case has a process of
its own. The cases take turns, and the round with the best median counts.

- "idle" ("alike"): all requests have the same text and fill their blocks in the same step, so a
  connector has hardly anything to store.
- "at work" ("spread"): each step fills 16 blocks.
- "processor": the processor time of the engine's own thread.

Goals: 1.05 idle and 1.2 at work, over the engine without a connector. They were set when a step of
the scheduler took more than twice as long, so the same cost is now a larger ratio. The ratios scatter; the row of a
connector that does nothing shows by how much. One step in eight looks at all requests
(\`storeEvery\`), which shows in the mean.

${part('steps')}

The same without a pause between two steps. Cases whose threads cannot keep up are left out:

${part('steps-without-pause')}`;
}

function store(part: (name: string) => string): string {
  return `## A store outside of the engine

The blocks go through the store's thread, with a checksum over each block. The store and its rivals
take turns, and the best of three rounds counts for each. The rivals are:

- a file alone: no thread, no key, no checksum, the same memory again and again;
- \`redis-benchmark\` with values of that size: a program in C that sends the same value again and
  again. Goal: 0.8 of its throughput.

The last table has the delay of the event loop while blocks move, with the store's thread and without
it.

${part('store')}`;
}

function lease(part: (name: string) => string): string {
  return `## Handing KV over

The table has the time from \`submit\` in one process to the first token of the request. The KV of the
prompt is loaded from another process on the same machine, and the model takes no time. A token has
16 KiB of KV; the figures are medians. "memcpy" copies as many bytes within one process, in the same
minute. An engine that only waits polls its transfers once a millisecond, and a short hand-over pays
for that several times.

${part('lease')}`;
}

function pipelines(part: (name: string) => string): string {
  return `## Pipelines

First the transports. Chunks have 16 tokens, with up to 1,024 in flight. The second figure is the
median of a chunk that goes alone. Both ends are in one process, and the server listens on a Unix
socket. The bare client ("XADD and XREADGROUP") adds one entry for each chunk, by automatic
pipelining. Like the transport, it acknowledges and removes each entry that it has read.

Then the stages: requests of 128 tokens, 64 at a time. The executors answer at once, so all of the time
is overhead. Each stage answers a chunk of 16 tokens with 16. All engines share one process and one
thread; over Redis each message goes through the server. A stage reads the tokens of its engine as they
come: compare it with the engine that is read as it computes. The best of five rounds counts.

${part('pipeline')}`;
}

function budgets(figures: Figures): string {
  return `## Against our budgets

These budgets were set before anything was built. A missed budget stays in the table, marked as
missed.

${markdown(['budget', 'limit', 'measured', 'verdict'], figures.budgets())}`;
}
