// Each impossible option is refused.
import { describe, expect, it } from 'vitest';
import { Pipeline } from '../../src/pipeline/pipeline.js';
import { StageServer } from '../../src/pipeline/stage-server.js';
import { MemoryTransport } from '../../src/pipeline/transport/memory-transport.js';
import { pipelineOf, stageOf } from './bench.js';

const transport = new MemoryTransport();
const remote = { name: 'b', remote: true };

/** Each bad value, and the message of its refusal: with the value, and the expected one. */
const PIPELINE: [string, object, RegExp][] = [
  ['stages', { stages: undefined }, /stages must be an array of 1 to 64 stages, got undefined/],
  ['no stages', { stages: [] }, /stages must be an array of 1 to 64 stages/],
  ['names', { stages: [stageOf('a'), stageOf('a')] }, /stages must be stages with different names, got "a"/],
  [
    'remote',
    { stages: [remote] },
    /transport must be a transport that reaches the stage b elsewhere, got none/,
  ],
  [
    'remote value',
    { transport, stages: [{ name: 'b', remote: 1 }] },
    /remote of stage b must be true, or absent, got 1/,
  ],
  ['remote name', { transport, stages: [{ name: 'a/b', remote: true }] }, /without a slash/],
  ['remote engine', { transport, stages: [{ ...remote, engine: {} }] }, /engine/],
  ['transport', { transport: {} }, /transport must be a transport/],
  ['maxRequests', { maxRequests: 0 }, /maxRequests must be an integer.* got 0/],
  ['pingMs', { pingMs: 0 }, /pingMs must be .* got 0/],
  ['deadMs', { pingMs: 500, deadMs: 499 }, /deadMs must be .*500.* got 499/],
  ['now', { now: 5 }, /now must be a function, got 5/],
  ['unknown', { stallMs: 5 }, /stallMs.*it is an option of a stage/],
];
const STAGE: [string, object, RegExp][] = [
  ['name', { name: '' }, /name of a stage must be a string of 1 to 128 characters without a slash, got ""/],
  ['kind', { kind: 'diffusion' }, /kind of stage a must be 'ar' or 'generation', got "diffusion"/],
  ['engine', { engine: 5 }, /engine of stage a must be the options of an Engine, got 5/],
  ['engine option', { engine: { numBlocks: 1, executor: {} } }, /engine of stage a: /],
  [
    'engine deadlines',
    { engine: { deadlines: 5 } },
    /deadlines of the engine of stage a must be an object, got 5/,
  ],
  [
    'engine input deadline',
    { engine: { deadlines: { streamingInput: 5 } } },
    /streamingInput.* 0 or absent.* got 5/,
  ],
  ['input', { input: 5 }, /input of stage a must be a function, got 5/],
  ['chunkTokens', { chunkTokens: 0 }, /chunkTokens of stage a must be .* got 0/],
  ['maxChunksAhead', { maxChunksAhead: 1025 }, /maxChunksAhead of stage a must be .*1024.* got 1025/],
  ['stallMs', { stallMs: -1 }, /stallMs of stage a must be .* got -1/],
  ['defaults', { defaults: 5 }, /defaults of stage a must be an object, got 5/],
  ['a default', { defaults: { prompt: [1] } }, /a stage is given its prompt by the stage before/],
  [
    'generation tokens',
    { kind: 'generation', defaults: { maxTokens: 2 } },
    /maxTokens of stage a must be 1 or absent/,
  ],
  [
    'generation engine',
    { kind: 'generation', engine: { enablePrefixCaching: true } },
    /enablePrefixCaching of stage a must be false or absent/,
  ],
  ['unknown', { chunkSize: 5 }, /chunkSize/],
];
const SUBMIT: [string, unknown, unknown, RegExp][] = [
  ['request', 5, {}, /request must be an object, got 5/],
  ['prompt', { prompt: 'x' }, {}, /prompt/],
  ['no prompt', { prompt: [] }, {}, /prompt must be at least one token, except in a session, got none/],
  ['id', { id: '', prompt: [1] }, {}, /id must be a string of 1 to 32768 characters, got ""/],
  ['resumable', { prompt: [1], resumable: 1 }, {}, /resumable must be a boolean, got 1/],
  ['timeoutMs', { prompt: [1], timeoutMs: 0 }, {}, /timeoutMs must be milliseconds/],
  ['maxTokens', { prompt: [1], maxTokens: 0 }, {}, /maxTokens must be .* got 0/],
  ['stages', { prompt: [1], stages: { z: {} } }, {}, /stages must be names among a, b, got "z"/],
  ['fields', { prompt: [1], stages: { b: { prompt: [1] } } }, {}, /prompt/],
  ['grammar', { prompt: [1], grammar: {} }, {}, /grammars are not supported in pipelines/],
  ['outputs', { prompt: [1] }, { outputs: 'b' }, /outputs must be an array of names of stages, got "b"/],
  ['an output', { prompt: [1] }, { outputs: ['z'] }, /outputs must be names among a, b, got "z"/],
  ['signal', { prompt: [1] }, { signal: 5 }, /signal/],
  ['unknown option', { prompt: [1] }, { stages: [] }, /stages/],
];

function refusal(call: () => unknown): { code?: string; message: string } {
  try {
    call();
  } catch (error) {
    return error as Error;
  }
  throw new Error('it was not refused');
}

describe('options that cannot be', () => {
  it.each(PIPELINE)('of a pipeline: %s', (_what, options, message) => {
    const error = refusal(() => new Pipeline({ stages: [stageOf('a')], ...options } as never));
    expect([error.code, error.message]).toEqual(['ERR_BLOCKSTEP_BAD_ARG', expect.stringMatching(message)]);
  });

  it.each(STAGE)('of a stage: %s', (_what, options, message) => {
    const base = stageOf('a');
    const { engine = {} } = options as { engine?: object };
    const stage = {
      ...base,
      ...options,
      engine: typeof engine === 'object' ? { ...base.engine, ...engine } : engine,
    };
    for (const make of [
      () => new Pipeline({ stages: [stage] } as never),
      () => new StageServer({ stage, transport: new MemoryTransport() } as never),
    ]) {
      const error = refusal(make);
      expect([error.code, error.message]).toEqual(['ERR_BLOCKSTEP_BAD_ARG', expect.stringMatching(message)]);
    }
  });

  it.each(SUBMIT)('of a submission: %s', async (_what, request, options, message) => {
    const pipeline = pipelineOf([{}, {}]);
    const error = refusal(() => pipeline.submit(request as never, options as never));
    expect([error.code, error.message]).toEqual(['ERR_BLOCKSTEP_BAD_ARG', expect.stringMatching(message)]);
    expect([pipeline.numUnfinished, pipeline.stats().stages['a'].requests]).toEqual([0, 0]);
    await pipeline.shutdown();
  });

  it('of a chunk, a shutdown and a server', async () => {
    const pipeline = pipelineOf([{}, {}]);
    const stream = pipeline.submit({ prompt: [1], resumable: true });
    expect(refusal(() => stream.addChunk({ prompt: [] })).message).toMatch(
      /prompt must be at least one token/,
    );
    expect(refusal(() => stream.addChunk({ prompt: [1], id: 5 } as never)).message).toMatch(/id/);
    for (const bad of [5, { drainMs: -1 }, { drain: 5 }])
      expect(refusal(() => pipeline.shutdown(bad as never)).code).toBe('ERR_BLOCKSTEP_BAD_ARG');
    await pipeline.shutdown({ drainMs: 0 });
    for (const bad of [{ deadMs: -1 }, { now: 5 }, { transport: {} }, { stages: [] }])
      expect(refusal(() => new StageServer({ stage: stageOf('a'), transport, ...bad } as never)).code).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
  });
});
