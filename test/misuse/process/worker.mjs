// Never stops stepping schedulers: its starter terminates it in the middle.
import { parentPort } from 'node:worker_threads';

const { Scheduler } = await import(process.env.BLOCKSTEP_INDEX);

function make() {
  return new Scheduler({
    numBlocks: 200,
    blockSize: 4,
    maxNumSeqs: 8,
    maxModelLen: 64,
    pipelineDepth: 2,
    hashSeed: 1,
  });
}

function step(scheduler, round) {
  scheduler.add({ id: `${round}`, prompt: new Int32Array(20 + (round % 9)), maxTokens: 5 });
  const plan = scheduler.schedule();
  const counts = Int32Array.from({ length: plan.numRequests }, (_, i) =>
    Math.min(1, plan.maxOutputTokens[i]),
  );
  scheduler.update(plan, { counts, tokens: new Int32Array(plan.numRequests) });
  if (round % 7 === 0) scheduler.abortAll();
}

const scheduler = make();
parentPort.postMessage('working');
for (let round = 0; ; round++) {
  step(scheduler, round);
  if (round % 50 === 0) step(make(), round); // never disposed, a plan in flight
}
