// Blockstep as a peer.
import { createInterface } from 'node:readline';
import { Scheduler } from '../../src/index.js';
import { HASH_SEED } from '../workloads/workloads.js';
import type { Added, Message, Open, Stepped } from './protocol.js';

/** Blockstep as a peer: the messages of the protocol carried out by a scheduler. */

const SAMPLED = 7;

let scheduler: Scheduler;
let tokens: Int32Array;
let counts: Int32Array;

function open({ numBlocks, blockSize, maxRunning, maxTokensPerStep, maxRequestTokens }: Open): object {
  scheduler?.dispose();
  scheduler = new Scheduler({
    numBlocks,
    blockSize,
    maxNumSeqs: maxRunning,
    maxNumBatchedTokens: maxTokensPerStep,
    maxModelLen: maxRequestTokens,
    hashSeed: HASH_SEED,
    deadlines: false,
  });
  tokens = new Int32Array(maxRunning).fill(SAMPLED);
  counts = new Int32Array(maxRunning);
  return {};
}

function add({ requests }: Extract<Message, { op: 'add' }>): Added {
  const us = requests.map(({ id, prompt, maxTokens }) => {
    const input = { id: String(id), prompt: Int32Array.from(prompt), maxTokens };
    const start = performance.now();
    scheduler.add(input);
    return (performance.now() - start) * 1000;
  });
  return { us };
}

function steps(count: number): Stepped {
  const answer = { requests: [], tokens: [], outputs: [], ended: [], us: [] } as Record<
    keyof Stepped,
    number[]
  >;
  for (let i = 0; i < count; i++) {
    const start = performance.now();
    const plan = scheduler.schedule();
    const planned = performance.now();
    const { numRequests, totalTokens, maxOutputTokens } = plan;
    let sampled = 0;
    for (let j = 0; j < numRequests; j++) {
      counts[j] = Math.min(1, maxOutputTokens[j]);
      sampled += counts[j];
    }
    const answered = performance.now();
    const outputs = scheduler.update(plan, { tokens, counts });
    answer.us.push((performance.now() - answered + planned - start) * 1000);
    answer.requests.push(numRequests);
    answer.tokens.push(totalTokens);
    answer.outputs.push(sampled);
    for (let j = 0; j < outputs.length; j++)
      if (outputs.finishReasons[j] !== 0) answer.ended.push(Number(outputs.requests[j].id));
  }
  return answer;
}

function answerTo(message: Message): object {
  switch (message.op) {
    case 'hello':
      return { name: 'blockstep' };
    case 'open':
      return open(message);
    case 'add':
      return add(message);
    case 'step':
      return steps(message.count);
    case 'close':
      setImmediate(() => process.exit(0));
      return {};
  }
}

for await (const line of createInterface({ input: process.stdin }))
  process.stdout.write(`${JSON.stringify(answerTo(JSON.parse(line) as Message))}\n`);
