// Never stops running engines, one after the other and several at once: its starter terminates it
// in the middle.
import { parentPort } from 'node:worker_threads';

const { Engine } = await import(process.env.BLOCKSTEP_INDEX);

function make(depth, answerLater) {
  return new Engine({
    numBlocks: 200,
    blockSize: 4,
    maxNumSeqs: 8,
    maxModelLen: 64,
    pipelineDepth: depth,
    hashSeed: 1,
    executor: {
      execute(plan) {
        const counts = Int32Array.from({ length: plan.numRequests }, (_, i) =>
          Math.min(1, plan.maxOutputTokens[i]),
        );
        const answer = { counts, tokens: new Int32Array(plan.numRequests) };
        if (plan.step % 50 === 49) throw new Error('now and then');
        return answerLater ? new Promise((resolve) => setImmediate(resolve, answer)) : answer;
      },
    },
  });
}

async function live(engine, round) {
  const controller = new AbortController();
  const input = { prompt: new Int32Array(10 + (round % 9)), maxTokens: 5 };
  for (let i = 0; i < 6; i++) {
    engine
      .submit({ ...input, prompt: input.prompt.fill(i) }, { signal: controller.signal })
      .result()
      .catch(() => {});
  }
  try {
    for await (const _ of engine.submit(input)) if (round % 5 === 0) break;
  } catch {
    // The executor fails now and then.
  }
  if (round % 3 === 0) controller.abort();
}

parentPort.postMessage('working');
for (let round = 0; ; round++) {
  const engine = make(1 + (round % 3), round % 2 === 0);
  void engine.run();
  await Promise.all([live(engine, round), live(engine, round + 1)]);
  // Every third is left as it is, at work.
  if (round % 3 === 0) engine.dispose();
  else if (round % 3 === 1) await engine.shutdown({ drainMs: 5 });
}
