// Pipelines and stages over reference executors, and a transport driven by hand.
import { afterEach, expect } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { ReferenceExecutor } from '../../src/executors/reference/reference-executor.js';
import { Pipeline } from '../../src/pipeline/pipeline.js';
import type { PipelineOptions } from '../../src/pipeline/pipeline-options.js';
import { Stage } from '../../src/pipeline/stage/stage.js';
import { parseStageOptions, type StageOptions } from '../../src/pipeline/stage/stage-options.js';
import type {
  PipelineMessage,
  StageFailure,
  StageSubmission,
} from '../../src/pipeline/transport/messages.js';
import type { Connection, Mailbox, Transport } from '../../src/pipeline/transport/transport.js';
import { codeOf } from '../support/core-bench.js';
import { leftovers } from '../support/engine-bench.js';

export { codeOf };

/** Engines of the stages of this test. */
const engines: Engine[] = [];
afterEach(() => {
  for (const engine of engines.splice(0)) engine.dispose();
});

export const SIZES = {
  numBlocks: 40,
  blockSize: 4,
  maxNumSeqs: 4,
  maxNumBatchedTokens: 96,
  maxModelLen: 96,
} as const;

/** A clock that stands until it is set. */
export class Clock {
  ms = 1000;
  readonly now = (): number => this.ms;
}

/** A stage over a reference executor with this seed. */
export function stageOf(name: string, seed = 0, options: Partial<StageOptions> = {}): StageOptions {
  const { engine, ...rest } = options;
  const sizes = { ...SIZES, pipelineDepth: 1 as const, ...engine };
  return {
    name,
    chunkTokens: 3,
    defaults: options.kind === 'generation' ? {} : { maxTokens: 4 },
    ...rest,
    engine: { executor: new ReferenceExecutor({ ...sizes, seed }), ...sizes },
  };
}

/** A pipeline of stages `a`, `b` and so on, whose seeds are 0, 1 and so on. */
export function pipelineOf(
  stages: readonly Partial<StageOptions>[],
  options: Partial<PipelineOptions> = {},
): Pipeline {
  const all = stages.map((each, i) => stageOf('abcdef'[i], i, each));
  return new Pipeline({ stages: all, ...options });
}

/** Steps until nothing moves any more and `until` holds. */
export async function drive(pipeline: Pipeline, until: () => boolean = () => pipeline.numUnfinished === 0) {
  for (let idle = 0, i = 0; idle < 8 || !until(); i++) {
    if (i === 5000) throw new Error('nothing comes of it');
    idle = (await pipeline.step()) ? 0 : idle + 1;
    if (idle > 200) throw new Error('nothing moves any more');
  }
}

/** A transport that delivers the messages that a test chooses, when it chooses. */
export class ByHand implements Transport {
  readonly isLocal = false;
  readonly sent: { readonly from: string; readonly to: string; readonly message: PipelineMessage }[] = [];
  readonly mailboxes = new Map<string, Mailbox>();
  /** Why a message can never be sent; null: it can. */
  refuses: (message: PipelineMessage) => string | null = () => null;

  join(name: string, mailbox: Mailbox): Connection {
    this.mailboxes.set(name, mailbox);
    return {
      send: (to, message) => {
        const why = this.refuses(message);
        if (why === null) this.sent.push({ from: name, to, message });
        return why;
      },
      close: () => {
        this.mailboxes.delete(name);
        return Promise.resolve();
      },
    };
  }

  tell(to: string, ...messages: PipelineMessage[]): void {
    for (const message of messages) this.mailboxes.get(to)?.receive(message);
  }

  /** The messages of one kind that were sent since the last call. */
  drain<K extends PipelineMessage['kind']>(kind: K): (PipelineMessage & { kind: K })[] {
    const found = this.sent.filter(({ message }) => message.kind === kind).map(({ message }) => message);
    const rest = this.sent.filter(({ message }) => message.kind !== kind);
    this.sent.splice(0, this.sent.length, ...rest);
    return found as (PipelineMessage & { kind: K })[];
  }

  /** The party of the client. */
  get client(): string {
    return [...this.mailboxes.keys()].find((name) => name.startsWith('client/')) as string;
  }
}

/** A stage by itself: a test sends its messages, and reads the answers. */
export class StageBench {
  readonly clock = new Clock();
  readonly post = new ByHand();
  readonly stage: Stage;

  constructor(options: Partial<StageOptions> = {}, deadMs = 0) {
    const place = { transport: this.post, now: this.clock.now, deadMs };
    this.stage = new Stage(parseStageOptions(stageOf('b', 1, options)), place);
    engines.push(this.stage.engine);
  }

  submit(key: string, submission: Partial<StageSubmission> = {}): void {
    const none = { prompt: new Int32Array(0), fields: {}, wants: true, client: 'client/c' };
    const all: StageSubmission = { key, id: 'x', from: 'stage/a', to: 'stage/c', ...none, ...submission };
    this.tell({ kind: 'submit', submission: all });
  }

  chunk(key: string, number: number, tokens: readonly number[], isLast = false): void {
    const chunk = { number, tokens: Int32Array.from(tokens), extras: null, isLast };
    this.tell({ kind: 'chunk', key, chunk });
  }

  tell(...messages: PipelineMessage[]): void {
    this.post.tell('stage/b', ...messages);
  }

  /** The only failure that was reported, if there is one; nothing is left of any request. */
  failure(): StageFailure | undefined {
    const [failed, ...more] = this.post.drain('failed');
    expect(more).toEqual([]);
    expect(this.stage.figures()).toMatchObject({ requests: 0, parked: 0 });
    this.stage.engine.step();
    expect(leftovers(this.stage.engine)).toEqual([]);
    this.stage.verify();
    return failed?.failure;
  }

  /** Makes the engine compute all that it can. */
  async settle(): Promise<void> {
    for (let i = 0; i < 40; i++) {
      this.stage.engine.step();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
