/**
 * Calibration without a GPU: plays a vLLM server that is slower than its data sheet. It writes the
 * server's log of iterations and the trace that was sent, and fits a profile to both. With a real
 * server, the log is what vLLM prints with `--enable-logging-iteration-details
 * --no-async-scheduling`.
 *
 *     npx tsx examples/iteration-log.ts [folder]
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  type Composition,
  calibrate,
  EngineRun,
  GPUS,
  profileCost,
  readTrace,
  rooflineProfile,
} from 'blockstep/sim';

/** The fields of the `config.json` of Llama 3.1 8B that are read. */
const CONFIG = {
  hidden_size: 4096,
  intermediate_size: 14336,
  num_attention_heads: 32,
  num_hidden_layers: 32,
  num_key_value_heads: 8,
  vocab_size: 128256,
};
const SERVER = { numBlocks: 27_000, maxNumSeqs: 32, maxNumBatchedTokens: 2048 };

/** A trace in Azure's format: a request each 60 ms, of 100 to 1,700 tokens, with answers of 20 to 140. */
function trace(requests: number): string {
  const rows = Array.from({ length: requests }, (_, i) => {
    const at = (i * 0.06).toFixed(3).padStart(6, '0');
    return `2026-01-01 00:00:${at},${100 + ((i * 337) % 1600)},${20 + ((i * 53) % 120)}`;
  });
  return ['TIMESTAMP,ContextTokens,GeneratedTokens', ...rows].join('\n');
}

/** Runs the requests on a GPU of these coefficients. @returns the log, as vLLM's server prints it */
async function playServer(path: string, maxNumSeqs: number): Promise<string> {
  const prior = rooflineProfile(CONFIG, 'Llama-3.1-8B', GPUS['h100']);
  if (prior.kind !== 'roofline') throw new Error('a data sheet gives a roofline');
  const cost = profileCost({
    ...prior,
    coefficients: { ...prior.coefficients, memory: 1.6, compute: 2.7, stepMs: 1.2 },
  });
  const { workload } = await readTrace(path);
  const lines: string[] = [];
  let counts = '';
  const run = new EngineRun({
    workload,
    scheduler: { ...SERVER, maxNumSeqs },
    cost: {
      hostMs: () => 0,
      stepMs: (features) => {
        const ms = cost.hostMs(features) + cost.stepMs(features);
        const line = `Iteration(${lines.length}): ${counts}, iteration elapsed time: ${ms.toFixed(2)} ms`;
        lines.push(
          `(APIServer pid=1) INFO 01-01 00:00:00 [loggers.py:182] Engine 000: ${line}, GPU KV cache usage: 0.0%`,
        );
        return ms;
      },
    },
    onStep: (_, plan) => {
      // A request is in its context phase until it has a token.
      const requests = [0, 0];
      const tokens = [0, 0];
      for (let i = 0; i < plan.numRequests; i++) {
        const phase = plan.requests[i].numOutputTokens > 0 ? 1 : 0;
        requests[phase]++;
        tokens[phase] += plan.numScheduledTokens[i];
      }
      counts = `${requests[0]} context requests, ${tokens[0]} context tokens, ${requests[1]} generation requests, ${tokens[1]} generation tokens`;
    },
  });
  run.run();
  run.dispose();
  return lines.join('\n');
}

export async function main(print: (line: string) => void = console.log, folder?: string): Promise<void> {
  const into = folder ?? mkdtempSync(join(tmpdir(), 'iteration-log-'));
  const path = join(into, 'trace.csv');
  writeFileSync(path, trace(150));
  const { workload: requests } = await readTrace(path);
  const prior = rooflineProfile(CONFIG, 'Llama-3.1-8B', GPUS['h100']);
  const percent = (share: number | null): string => `${(100 * (share ?? 0)).toFixed(1)} %`;

  const text = await playServer(path, SERVER.maxNumSeqs);
  writeFileSync(join(into, 'vllm.log'), text);
  const { profile, steps, priorErrors } = await calibrate({
    prior,
    text,
    name: 'vllm.log',
    requests,
    scheduler: SERVER,
  });
  writeFileSync(join(into, 'profile.json'), JSON.stringify(profile, null, 1));
  print(`trace.csv, vllm.log and profile.json are in ${into}`);
  print(`${steps?.equalSteps} of ${steps?.steps} steps are decided as by the server`);
  print(
    `a step is off by ${percent(priorErrors.stepMs)} by data sheet, by ${percent(profile.fit.errors.stepMs)} after the fit`,
  );
  print(`not determined by the data: ${profile.fit.undetermined.join(', ')}`);

  // A log of other options is found at the first step that they change.
  const other = await playServer(path, 24);
  const found = await calibrate({ prior, text: other, name: 'other.log', requests, scheduler: SERVER });
  const { difference } = found.steps!;
  const requestsOf = (step: Composition | null | undefined): number =>
    step == null ? 0 : step.contextRequests + step.generationRequests;
  print(
    `with other options, step ${difference?.step} differs: ${requestsOf(difference?.ours)} requests instead of ${requestsOf(difference?.logged)}`,
  );
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main(console.log, process.argv[2]);
