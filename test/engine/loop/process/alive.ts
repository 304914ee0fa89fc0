/**
 * A program that awaits requests, one kind of wait after the other, while nothing but the engine
 * keeps the process alive. The process must end, and prints the end of each request.
 *
 *     node alive.js awaits|leaves
 */
import type { BorrowingAdapter, BorrowQueues } from '../../../../src/borrow.js';
import {
  Engine,
  type EngineOptions,
  type Request,
  type RequestStream,
  type SubmitInput,
} from '../../../../src/index.js';
import { ScriptedConnector } from '../../../support/connector/scripted-connector.js';
import { ScriptedWorker } from '../../../support/connector/scripted-worker.js';
import { ViewingConnector } from '../../../support/connector/viewing-connector.js';
import { answerOf } from '../../../support/engine-bench.js';
import { FakeGrammar } from '../../../support/fake-grammar.js';

/** How long events of the world outside take, and the deadlines that nobody keeps, in milliseconds. */
const SOON_MS = 20;
const atOnce = { usesTables: false, execute: answerOf };
const later = { ...atOnce, execute: (plan: never) => outside(() => answerOf(plan)) };
const never = { ...atOnce, execute: () => new Promise<never>(() => {}) };
const prompt = (length: number) => Int32Array.from({ length }, (_, i) => i);

/** Something that happens soon, and keeps no process alive. */
function outside<T>(act: () => T): Promise<T> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(act()), SOON_MS).unref();
  });
}

/** The engine of the present life. */
let engine!: Engine;

function begin(options: Partial<EngineOptions> = {}): void {
  const sizes = { numBlocks: 9, blockSize: 4, maxModelLen: 32, maxNumSeqs: 4, hashSeed: 7 };
  engine = new Engine({ ...sizes, executor: atOnce, ...options });
  void engine.run().catch(() => {});
}

function submit(input: Partial<SubmitInput> = {}): RequestStream {
  return engine.submit({ prompt: prompt(6), maxTokens: 3, ...input });
}

/** How a request ends. */
function endOf(stream: Pick<RequestStream, 'result'>): Promise<string> {
  return stream.result().then(
    ({ finishReason }) => finishReason,
    (error: { code: string; message: string }) => `${error.code}: ${error.message.replace(/[\d.]+ ms/g, '')}`,
  );
}

/** Makes a store hold four of the eight blocks until later. */
async function holdBlocks(): Promise<void> {
  const held = submit({ prompt: prompt(13), maxTokens: 1, cacheSalt: 'held' });
  engine.hold(held.handle, 'store', 'job');
  await held.result();
  void outside(() => engine.complete(held.handle, 'store', 'job'));
}

/** A connector that has eight tokens of the request "r". */
function beginConnected(script: ConstructorParameters<typeof ScriptedConnector>[0], deadlineMs: number) {
  const [connector, worker] = [new ScriptedConnector(script), new ScriptedWorker()];
  begin({ connector, workers: [worker], deadlines: { load: deadlineMs } });
  return { stream: submit({ id: 'r', prompt: prompt(13) }), worker };
}

/** Takes every request out of its step while it waits. */
class Borrower implements BorrowingAdapter {
  readonly parked: Request[][] = [[]];
  isWaiting = true;

  processPendingChunks({ waiting }: BorrowQueues): void {
    if (!this.isWaiting) return;
    for (const request of waiting) if (waiting.remove(request)) this.parked[0].push(request);
  }

  restoreQueues({ waiting }: BorrowQueues): void {
    for (const request of this.parked[0].splice(0)) waiting.pushBack(request);
  }
}

const AWAITS: Readonly<Record<string, () => Promise<string>>> = {
  'a step': () => {
    begin({ executor: later, pipelineDepth: 2 });
    return endOf(submit());
  },
  'a step without a limit': () => {
    begin({ executor: later, executorTimeoutMs: 0 });
    return endOf(submit());
  },
  'a step beside blocks that nobody waits for': async () => {
    const deadlines = { reclaim: SOON_MS };
    begin({
      executor: later,
      connector: new ScriptedConnector(),
      workers: [new ScriptedWorker()],
      deadlines,
    });
    const held = submit();
    engine.hold(held.handle, 'store', 'job');
    await held.result();
    while (engine.stats().scheduler.numQuarantined === 0)
      await new Promise((resolve) => setTimeout(resolve, 1));
    // Now the engine looks once a second for a report, for which no process has to live.
    return endOf(submit());
  },
  executorTimeoutMs: () => {
    begin({ executor: never, executorTimeoutMs: SOON_MS });
    return endOf(submit());
  },
  admission: async () => {
    begin();
    await holdBlocks();
    return endOf(submit({ prompt: prompt(20) }));
  },
  'admission of a batch': async () => {
    begin();
    await holdBlocks();
    const [{ finishReason }] = await engine.generate([prompt(20)], { maxTokens: 3 });
    return finishReason;
  },
  resumption: async () => {
    begin();
    await holdBlocks();
    const end = await endOf(submit({ prompt: prompt(12), maxTokens: 12 }));
    return `${end}, preempted ${engine.stats().scheduler.numPreemptions > 0}`;
  },
  'an adapter': () => {
    begin({ executor: later, maxLoras: 1 });
    submit({ adapter: 'a' });
    return endOf(submit({ adapter: 'b' }));
  },
  'a grammar': () => {
    begin();
    const grammar = new FakeGrammar();
    let isReady = false;
    grammar.ready = () => isReady;
    void outside(() => {
      isReady = true;
    });
    return endOf(submit({ grammar }));
  },
  'deadlines.grammar': () => {
    begin({ deadlines: { grammar: SOON_MS } });
    return endOf(submit({ grammar: new FakeGrammar({ notReady: Number.POSITIVE_INFINITY }) }));
  },
  'a look-up': () => {
    const script = { r: { defer: Number.POSITIVE_INFINITY } };
    const { stream } = beginConnected(script, 0);
    void outside(() => {
      script.r.defer = 0;
    });
    return endOf(stream);
  },
  'a look-up that wakes': () => {
    const connector = new ViewingConnector();
    connector.match = { numTokens: null, async: false, wakes: true };
    begin({ connector, deadlines: { load: 0 } });
    const stream = submit();
    void outside(() => {
      connector.match = null;
      connector.view.wake(stream.handle);
    });
    return endOf(stream);
  },
  'deadlines.load of a look-up': () =>
    endOf(beginConnected({ r: { defer: Number.POSITIVE_INFINITY } }, SOON_MS).stream),
  'a load': () => {
    const { stream, worker } = beginConnected({ r: { ext: 8, async: true } }, 0);
    void outside(() => worker.next.push({ finishedReceiving: [{ handle: stream.handle }] }));
    return endOf(stream);
  },
  'a load in a pause': () => {
    const { stream, worker } = beginConnected({ r: { ext: 8, async: true } }, 60_000);
    setImmediate(() => engine.pause('all'));
    void outside(() => {
      engine.resume();
      worker.next.push({ finishedReceiving: [{ handle: stream.handle }] });
    });
    return endOf(stream);
  },
  'deadlines.load of a load': () => endOf(beginConnected({ r: { ext: 8, async: true } }, SOON_MS).stream),
  'the next chunk': () => {
    begin();
    const stream = submit({ resumable: true });
    void outside(() => {
      stream.addChunk({ prompt: prompt(3), maxTokens: 2 });
      stream.endInput();
    });
    return endOf(stream);
  },
  'deadlines.streamingInput': () => {
    begin({ deadlines: { streamingInput: SOON_MS } });
    return endOf(submit({ resumable: true }));
  },
  'a borrowing adapter': () => {
    const borrower = new Borrower();
    begin({ borrower });
    void outside(() => {
      borrower.isWaiting = false;
    });
    return endOf(submit());
  },
  'deadlines.queue': () => {
    begin({ deadlines: { queue: SOON_MS } });
    engine.pause('new');
    return endOf(submit());
  },
  timeoutMs: () => {
    begin();
    engine.pause('all');
    return endOf(submit({ timeoutMs: SOON_MS }));
  },
  'the end of a pause': () => {
    begin();
    engine.pause('all');
    void outside(() => engine.resume());
    return endOf(submit({ timeoutMs: 60_000 }));
  },
};

/** Each leaves something behind that no process has to live for. */
const LEAVES: Readonly<Record<string, () => unknown>> = {
  'nothing to do': () => {
    begin({ executor: later });
    return endOf(submit());
  },
  'an idle session': () => {
    begin({ deadlines: false });
    return submit({ id: 'session', resumable: true })[Symbol.asyncIterator]().next();
  },
  'a pause': () => {
    begin();
    engine.pause('all');
    submit({ id: 'paused' });
  },
  'a pause of admissions': () => {
    begin();
    engine.pause('new');
    submit({ id: 'not admitted' });
  },
  'blocks of a request that has ended': () => {
    begin();
    const held = submit({ id: 'held' });
    engine.hold(held.handle, 'store', 'job');
    return held.result();
  },
  'a step of an aborted request': async () => {
    begin({ executor: never });
    const stream = submit({ id: 'aborted' });
    await new Promise((resolve) => setImmediate(resolve));
    stream.abort();
  },
};

/** The resources of an engine that keep the process alive at present. */
function keeping(): string[] {
  return process.getActiveResourcesInfo().filter((name) => /Timeout|Immediate/.test(name));
}

const ends: Record<string, unknown> = {};
const left: Engine[] = [];
if (process.argv[2] === 'awaits') {
  for (const [what, live] of Object.entries(AWAITS)) {
    if (keeping().length > 0) throw new Error(`${keeping()} would keep the process alive for ${what}`);
    ends[what] = await live();
    await engine.shutdown({ drainMs: 0 });
  }
} else {
  for (const [what, leave] of Object.entries(LEAVES)) {
    await leave();
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
    ends[what] = keeping();
    left.push(engine);
  }
}
process.stdout.write(JSON.stringify(ends));
// A process that is kept alive ends too, in the end.
setTimeout(() => process.exit(7), 10_000).unref();
