// The stop reason of an answer does not reach the next chunk of a session.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { StepOutputs } from '../../../src/scheduler/plan/step-outputs.js';
import { FinishCode } from '../../../src/scheduler/request/status.js';
import { RemoteDriver } from '../../guards/remote.js';
import { prompt } from '../../support/driver.js';

/** The token that stopped the first answer. */
const STOP = 107;

/** The first answer of a session has stopped on `STOP`; of its second chunk a first part is in flight. */
class Chunked extends RemoteDriver {
  readonly handle: number;
  readonly clock: { now: number };

  constructor(options: Partial<SchedulerOptions>, chunk: number) {
    const clock = { now: 0 };
    const limits: Partial<SchedulerOptions> = { longPrefillTokenThreshold: 4, loadFailurePolicy: 'fail' };
    super({}, { ...limits, now: () => clock.now, ...options }, { tokenAt: (_, position) => 100 + position });
    this.clock = clock;
    this.handle = this.add({ id: 's', prompt: prompt(6), stopTokenIds: [STOP], resumable: true });
    this.addChunk(this.handle, { prompt: prompt(chunk, 4), stopTokenIds: [120] });
    const { session } = this.request(this.handle);
    this.run(40, () => session?.numChunks === 1);
    this.settle();
    expect(this.request(this.handle).stopReason).toBe(STOP);
    this.schedule();
  }

  settle(): void {
    while (this.inFlight.length > 0) this.update();
  }

  /** The chunk is preempted, and the connector has its first 12 tokens when it is admitted again. */
  reload(async: boolean): void {
    this.scheduler.resetPrefixCache({ resetRunning: true });
    this.settle();
    this.connector.instead.match = () => ({ numTokens: 12, async });
    if (async) this.empty();
    else this.schedule();
  }

  /** A block that was to be loaded. */
  get block(): number {
    return this.connector.loadOf(this.handle).blocks[1];
  }
}

/** How a chunk ends before the first token of its answer. Each leaves the row of its end to the updates that follow. */
const ENDS: Record<string, (driver: Chunked) => void> = {
  'its load failed, and a step tells it': (driver) => {
    driver.reload(true);
    driver.report = { failedReceiving: [{ handle: driver.handle }] };
  },
  'blocks of its load are invalid, and a step tells it': (driver) => {
    driver.reload(true);
    driver.report = { invalidBlocks: [{ block: driver.block }] };
  },
  'its load failed, and no step is there': (driver) => {
    driver.reload(true);
    driver.say({ failedReceiving: [{ handle: driver.handle }] });
  },
  'its load is fenced': (driver) => {
    driver.reload(true);
    driver.scheduler.fenceTransfers(0);
  },
  'its load takes too long': (driver) => {
    driver.reload(true);
    driver.clock.now = 1e6;
  },
  'its synchronous load failed': (driver) => {
    driver.reload(false);
    driver.report = { invalidBlocks: [{ block: driver.block }] };
  },
  'its entry failed': (driver) => {
    driver.settle();
    driver.schedule(() => true);
  },
  'its connector throws when it is asked': (driver) => {
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    driver.settle();
    driver.connector.throwing.add('match');
  },
  'its connector throws when it is told of its blocks': (driver) => {
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    driver.settle();
    driver.connector.throwing.add('alloc');
  },
};

/** The row that ended the request. */
function lastRow(driver: Chunked): { reason: number; stopReason: number | null } {
  for (let i = 0; i < 9; i++) {
    const empty = driver.inFlight.length > 0 ? undefined : driver.schedule();
    const { length, requests, finishReasons }: StepOutputs = driver.update(empty);
    for (let row = 0; row < length; row++) {
      if (requests[row].isFinished)
        return { reason: finishReasons[row], stopReason: requests[row].stopReason };
    }
  }
  throw new Error('it did not end');
}

describe('a chunk that ends before its first token, where a token stopped the answer before', () => {
  for (const deviations of [undefined, false] as const) {
    for (const pipelineDepth of [1, 2] as const) {
      const name = `deviations ${deviations === false ? 'off' : 'on'}, depth ${pipelineDepth}`;
      it.each(Object.keys(ENDS))(`${name}: %s, and its row has no stop reason`, (how) => {
        const driver = new Chunked({ pipelineDepth, ...(deviations === false && { deviations }) }, 13);
        ENDS[how](driver);
        expect(lastRow(driver)).toEqual({ reason: FinishCode.error, stopReason: null });
        expect(driver.text(driver.handle)).toEqual([106, STOP]);
      });

      it(`${name}: its step failed as a whole, and its row has no stop reason`, () => {
        const driver = new Chunked({ pipelineDepth, ...(deviations === false && { deviations }) }, 13);
        driver.settle();
        driver.schedule(() => true);
        const { length, requests, finishReasons } = driver.failStep();
        expect([length, finishReasons[0], requests[0].stopReason]).toEqual([1, FinishCode.error, null]);
      });
    }
  }

  it('it leaves no room for an answer, and its row of reason length has no stop reason', () => {
    const driver = new Chunked({ maxModelLen: 20 }, 13);
    expect(lastRow(driver)).toEqual({ reason: FinishCode.length, stopReason: null });
  });
});

it('a session that is ended while it waits for input keeps what stopped its last answer', () => {
  const driver = new Chunked({}, 13);
  const request = driver.request(driver.handle);
  driver.run(60, () => request.status !== 'WAITING_FOR_STREAMING_REQ');
  expect(driver.endSession(driver.handle)).toBe('ended');
  expect([request.finishReason, request.stopReason]).toEqual(['abort', 120]);
});
