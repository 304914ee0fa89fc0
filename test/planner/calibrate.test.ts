// `blockstep calibrate`: the three kinds of profiles, its output, wrong input.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { readProfile } from '../../src/planner/model/profile-file.js';
import { run } from '../cli/run-program.js';
import { useTempFiles, useTempFolders } from '../support/temp-file.js';
import { LLAMA_8B } from './models.js';
import { asVllmBench, measure, requests, SCHEDULER } from './truth.js';

const folders = useTempFolders(useTempFiles());
const OPTIONS = ['--num-blocks', '3000', '--max-num-seqs', '32', '--max-num-batched-tokens', '1024'];

describe('blockstep calibrate', () => {
  let folder: string;
  let output: string;
  let model: string[];
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  beforeEach(() => {
    folder = folders();
    output = join(folder, 'p.json');
    model = ['--model', write('config.json', JSON.stringify(LLAMA_8B)), '--gpu', 'a100', '-o', output];
  });

  it('makes a roofline of a model and a data sheet', async () => {
    const { code, stderr } = await run(['calibrate', ...model, '--gpus', '2']);
    expect([code, stderr]).toEqual([0, `written to ${output}\n`]);
    expect(readProfile(output)).toMatchObject({ kind: 'roofline', provenance: { gpus: 2 }, seen: null });
  });

  it('makes tables of those of LLMServingSim', async () => {
    write('dense.csv', 'layer,tokens,time_us\nlayernorm,1,10\n');
    write('per_sequence.csv', 'layer,sequences,time_us\nlm_head,1,500\n');
    write('attention.csv', 'prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,100\n');
    const { code, stderr } = await run(['calibrate', ...model, '--tables', folder, '--skew', '0.05']);
    expect([code, stderr]).toEqual([0, `3 points read, 0 of them evened out\nwritten to ${output}\n`]);
    expect(readProfile(output)).toMatchObject({ kind: 'table', table: { skew: 0.05, linear: [[1, 0.64]] } });
  });

  it('fits results of a load generator, and says how good the fit is', async () => {
    const workload = requests(40, 6);
    const file = write('bench.json', asVllmBench(workload, measure(workload, { noise: 0.02 }).times));
    const { code, stdout, stderr } = await run(['calibrate', file, ...model, ...OPTIONS, '--vllm', '0.19.0']);
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(/fit 1 of 3: loss .*\nwritten to .*p.json\n$/s),
    ]);
    expect(stdout).toMatch(/errors on the 20 that were not fitted/);
    expect(stdout).toMatch(/end-to-end latency: 0\.\d+ % \(\d\d/);
    expect(stdout).toMatch(/NOT DETERMINED by the data|the data determined every/);
    expect(readProfile(output)).toMatchObject({ kind: 'fitted', provenance: { vllm: '0.19.0' } });
  });

  it('fits an iteration log of the requests of a trace, and says where it differs', async () => {
    const workload = requests(40, 6);
    const rows = Array.from({ length: 40 }, (_, i) => {
      const seconds = (workload.arrivalMs[i] / 1000).toFixed(9);
      return `${seconds},${workload.inputTokens[i]},${workload.outputTokens[i]}`;
    });
    const trace = write('trace.csv', ['Timestamp,Request tokens,Response tokens', ...rows].join('\n'));
    const { log } = measure(workload);
    const file = write('vllm.log', log);
    const same = await run(['calibrate', file, ...model, ...OPTIONS, '--requests', trace]);
    expect([same.code, same.stdout]).toEqual([
      0,
      expect.stringMatching(/^(\d+) of \1 steps are decided alike$/m),
    ]);
    const other = write('other.log', measure(workload, { scheduler: { ...SCHEDULER, maxNumSeqs: 12 } }).log);
    const found = await run(['calibrate', other, ...model, ...OPTIONS, '--requests', trace, '--json']);
    const { steps } = (found.stdout === '' ? {} : JSON.parse(found.stdout)) as {
      steps?: { difference: object };
    };
    if (found.code === 3) expect(steps?.difference).toBeTruthy();
    else expect(found.stderr).toMatch(/at least 50 equal steps, got/);
  });

  it('refuses bad input before anything runs, and writes nothing then', async () => {
    const file = write('bench.json', '{}');
    const cases: [string[], RegExp][] = [
      [['calibrate', file, ...model], /bench.json: expected results of/],
      [['calibrate', join(folder, 'none'), ...model], /cannot be read: ENOENT/],
      [['calibrate', file, ...model, '--tables', folder], /--tables cannot be used with a FILE/],
      [
        ['calibrate', file, ...model, '--num-speculative-tokens', '2'],
        /numSpeculativeTokens must be 0: a meas/,
      ],
      [['calibrate', file, ...model, '--share', '1'], /share must be/],
      [['calibrate', ...model, '--requests', file], /--requests needs a FILE/],
      [['calibrate', ...model.slice(0, 2), '-o', output], /--gpu/],
      [['calibrate', ...model, '--gpu', 'abacus'], /Allowed choices are a10g/],
      [['calibrate', ...model, '--model', file], /num_attention_heads must be/],
    ];
    for (const [args, says] of cases) {
      const { code, stderr } = await run(args);
      expect([code, stderr]).toEqual([2, expect.stringMatching(says)]);
      expect(existsSync(output)).toBe(false);
    }
  });

  it('stops with an interrupt', async () => {
    const workload = requests(40, 6);
    const file = write('bench.json', asVllmBench(workload, measure(workload).times));
    const { code, stderr } = await run(['calibrate', file, ...model, ...OPTIONS], {
      signal: AbortSignal.abort(),
    });
    expect([code, stderr]).toEqual([130, 'interrupted: no profile was written\n']);
    expect(existsSync(output)).toBe(false);
    expect(readFileSync(file, 'utf8')).not.toBe('');
  });
});
