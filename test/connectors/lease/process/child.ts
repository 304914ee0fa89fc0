/**
 * An engine with a lease connector in a process of its own, ordered about by its parent (`Child` in `children.ts`). Its
 * one argument is its setup as JSON.
 */

import { LeaseConnector, LeaseWorker, ZmqLink } from '../../../../src/connectors/lease/index.js';
import { Engine, ReferenceExecutor, type RequestStream } from '../../../../src/index.js';
import type { ChildReport, ChildSetup, Command, Reply } from './protocol.js';

const setup = JSON.parse(process.argv[2]) as ChildSetup;
const sizes = { numBlocks: 256, blockSize: 8, maxNumSeqs: 16, maxNumBatchedTokens: 256, maxModelLen: 512 };
const { pipelineDepth, seed } = setup;

const executor = new ReferenceExecutor({
  ...sizes,
  pipelineDepth,
  seed,
  shareKv: setup.shares,
  latencyMs: 1,
});
const link = await ZmqLink.open({ bind: setup.address });
const connector = new LeaseConnector({ addresses: [link.address], leaseMs: setup.leaseMs });
const { peerTimeoutMs } = setup;
const worker = new LeaseWorker({ memory: executor, link, peerTimeoutMs, pieceBytes: 4096 });
const engine = new Engine({
  ...{ ...sizes, pipelineDepth, executor, connector, workers: [worker] },
  loadFailurePolicy: setup.loadFailurePolicy,
});
engine.run().catch((error: unknown) => {
  console.error(error);
  process.exit(3);
});

const streams = new Map<number, RequestStream>();

function send(reply: Reply): void {
  process.send?.(reply);
}

function report(): ChildReport {
  const { scheduler } = engine.stats();
  return {
    engineId: connector.engineId,
    hasWork: engine.hasWork(),
    scheduler,
    worker: worker.stats(),
    connector: connector.stats(),
    faults: executor.numFaults,
    workerFailures: engine.stats().workerFailures,
  };
}

async function submit({
  number,
  prompt,
  maxTokens,
  transferParams,
}: Command & { kind: 'submit' }): Promise<void> {
  try {
    const input = {
      prompt: Int32Array.from(prompt),
      maxTokens,
      ...(transferParams === null ? {} : { transferParams }),
    };
    const stream = engine.submit(input);
    streams.set(number, stream);
    const { tokens, finishReason, transferParams: params } = await stream.result();
    send({ kind: 'result', number, tokens: [...tokens], finishReason, transferParams: params, error: '' });
  } catch (error) {
    send({
      kind: 'result',
      number,
      tokens: [],
      finishReason: 'error',
      transferParams: null,
      error: String(error),
    });
  }
  streams.delete(number);
}

process.on('message', (command: Command) => {
  if (command.kind === 'submit') void submit(command);
  else if (command.kind === 'abort') streams.get(command.number)?.abort();
  else if (command.kind === 'report') send({ kind: 'report', number: command.number, report: report() });
  else void engine.shutdown({ drainMs: 0 }).then(() => process.disconnect());
});
process.on('disconnect', () => process.exit(0));
send({ kind: 'ready' });
