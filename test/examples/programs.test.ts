// Each example prints something when it is run.
import { describe, expect, it } from 'vitest';
import { main as allOutputs } from '../../examples/all-outputs.js';
import { main as batch } from '../../examples/batch.js';
import { main as embed } from '../../examples/embed.js';
import { main as executor } from '../../examples/executor.js';
import { main as fastify } from '../../examples/fastify.js';
import { main as hostTier } from '../../examples/host-tier.js';
import { main as iterationLog } from '../../examples/iteration-log.js';
import { main as memo } from '../../examples/memo.js';
import { main as memoryStore } from '../../examples/memory-store.js';
import { main as tenantLimit } from '../../examples/tenant-limit.js';

type Program = (print: (line: string) => void) => Promise<void>;

describe('an example that is run', () => {
  it.each<[string, Program, RegExp]>([
    ['all-outputs', allOutputs, /"id":"b".*"end":\{"reason":"length"\}/s],
    ['batch', batch, /^3 of 3: 12 tokens\n a rose is a rose\.\n\(BlockstepError: .*\n in Spain stays/],
    ['embed', embed, /^\{.*"text":" rose is a rose"/],
    ['executor', executor, /^(\d+\n){4}\d+$/],
    ['fastify', fastify, /data: \{"text":" a"\}.*"finishReason":"length"/s],
    [
      'host-tier',
      hostTier,
      /^the prompt from 1: 0 of 100.*\nthe prompt from 500: 0 .*\nthe prompt from 1: 96 of/,
    ],
    [
      'iteration-log',
      iterationLog,
      /^trace.csv.*\n(\d+) of \1 steps are decided as by the server\na step is off by 2\d\.\d % by data sheet, by 0\.\d % .*\n.*\nwith other options, step \d+ differs: /,
    ],
    ['memo', memo, /^the prompt from 1: 0 of 100.*\nthe prompt from 500: 0 .*\nthe prompt from 1: 96 of/],
    [
      'tenant-limit',
      tenantLimit,
      /^without a limit: (busy\/\d ){6}other\/1\ntwo of a tenant: busy\/1 busy\/2 other\/1 (busy\/\d ?){4}$/,
    ],
    ['memory-store', memoryStore, /^first: 0 of 100 .*\nsecond: 96 of 100 tokens came from the store$/],
  ])('prints what it shows: %s', async (_name, program, expected) => {
    const lines: string[] = [];
    await program((line) => lines.push(line));
    expect(lines.join('\n')).toMatch(expected);
  });
});
