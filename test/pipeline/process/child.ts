/**
 * One stage of a pipeline over Redis, or one client of it, as a process that obeys its parent
 * (`Child` in `children.ts`). Its one argument is its setup as JSON.
 */

import type { ReferenceExecutor } from '../../../src/index.js';
import { Pipeline, StageServer } from '../../../src/pipeline/index.js';
import { RedisTransport } from '../../../src/pipeline/redis/index.js';
import type { ChildReport, ChildSetup, Command, Reply } from './protocol.js';
import { STAGES, stageOf } from './stages.js';

const setup = JSON.parse(process.argv[2]) as ChildSetup;
const { role, url, deadMs, ttlMs, commandTimeoutMs, latencyMs } = setup;
const transport = await RedisTransport.open({ url, ttlMs, commandTimeoutMs });

function send(reply: Reply): void {
  process.send?.(reply);
}

/** A client has three requests at a time, until it is killed. */
function beClient(): () => Omit<ChildReport, 'transport'> {
  const stages = STAGES.map((name) => ({ name, remote: true as const }));
  const pipeline = new Pipeline({ stages, transport, deadMs, pingMs: 100 });
  pipeline.run();
  let number = 0;
  const go = async (): Promise<void> => {
    const prompt = Int32Array.of(1, 2, ++number % 7);
    await pipeline
      .submit({ prompt, maxTokens: 24 })
      .result()
      .catch(() => {});
    setTimeout(() => void go(), 20);
  };
  for (let i = 0; i < 3; i++) void go();
  return () => ({ requests: pipeline.numUnfinished, inEngine: 0, faults: 0, anomalies: {} });
}

function beStage(name: (typeof STAGES)[number]): () => Omit<ChildReport, 'transport'> {
  const stage = stageOf(name, latencyMs);
  const server = new StageServer({ stage, transport, deadMs });
  server.run();
  const executor = stage.engine.executor as ReferenceExecutor;
  return () => {
    const { requests, engine, anomalies } = server.stats();
    const { rowsInUse } = engine.scheduler;
    return { requests, inEngine: rowsInUse, faults: executor.numFaults, anomalies };
  };
}

const report = role === 'client' ? beClient() : beStage(role);
process.on('message', (command: Command) => {
  if (command.kind === 'end') process.exit(0);
  const [party] = Object.values(transport.stats());
  send({ kind: 'report', number: command.number, report: { ...report(), transport: party } });
});
process.on('disconnect', () => process.exit(0));
send({ kind: 'ready' });
