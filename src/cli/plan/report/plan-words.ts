// Sentences that the tables and the page of a plan share; the command line of vLLM.
import { ACCEPTANCE_RATE } from '../../../executors/cost-model/cost-model.js';
import type { Finalist, Plan, PlanInput } from '../../../planner/plan.js';
import { KNOBS, optionsAt, type Point } from '../../../planner/sweep/knobs.js';
import { sloInWords } from '../../../planner/sweep/slo.js';
import { decimal, figure, percent } from '../../../report/markup/figures.js';
import { commandLine } from '../../terminal/command-line.js';

/** A plan and its input, for people. */
export interface Told {
  readonly found: Plan;
  readonly input: PlanInput;
  /** Name of the trace. */
  readonly trace: string;
  /** Name of the model, for vLLM. */
  readonly model: string;
}

/** A point in words. */
export function pointInWords(point: Point): string {
  const words = Object.entries(point).map(([name, value]) => `${name} ${value}`);
  return words.length === 0 ? 'the options as given' : words.join(', ');
}

/** Knobs that vLLM has no numeric flag of the same name for. */
const NOT_FLAGS: readonly string[] = ['pipeline-depth', 'num-speculative-tokens'];

/** The command line that starts vLLM with a point's options, quoted for a shell. */
export function vllmCommand({ model, input }: Told, point: Point): string {
  const options = optionsAt(input.scheduler, point);
  const words = ['vllm', 'serve', model];
  const { gpus } = input.profile.provenance;
  if (gpus > 1) words.push('--tensor-parallel-size', String(gpus));
  for (const [name, { option }] of Object.entries(KNOBS)) {
    // Unless the sweep varies the blocks, vLLM finds the number of blocks that fit itself.
    if (NOT_FLAGS.includes(name) || (name === 'num-blocks' && point[name] === undefined)) continue;
    const value = options[option as keyof typeof options];
    if (typeof value === 'number' && value > 0)
      words.push(name === 'num-blocks' ? '--num-gpu-blocks-override' : `--${name}`, String(value));
  }
  if (options.enablePrefixCaching === false) words.push('--no-enable-prefix-caching');
  if (options.enableChunkedPrefill === false) words.push('--no-enable-chunked-prefill');
  if (options.policy === 'priority') words.push('--scheduling-policy', 'priority');
  const { numSpeculativeTokens = 0, speculativeMethod = 'ngram' } = options;
  if (numSpeculativeTokens > 0) {
    // The other methods need a second model.
    const drafter = speculativeMethod === 'ngram' ? {} : { model: 'DRAFT_MODEL' };
    const config = { method: speculativeMethod, ...drafter, num_speculative_tokens: numSpeculativeTokens };
    words.push('--speculative-config', JSON.stringify(config));
  }
  words.push((options.pipelineDepth ?? 1) > 1 ? '--async-scheduling' : '--no-async-scheduling');
  return commandLine(words);
}

/** A load with its band. */
export function loadInWords({ capacity, band }: Finalist): string {
  const load = figure(capacity.requestsPerSecond);
  if (capacity.requestsPerSecond === 0) return 'none that was tried';
  if (capacity.isLeast) return `over ${load} requests/s: the trace is too short to break it`;
  return band === null
    ? `${load} requests/s`
    : `${load} requests/s (${figure(band[0])} to ${figure(band[1])})`;
}

/** Facts about the trustworthiness of a plan, each with its name. */
export function trustInWords({ input, found }: Told): [string, string][] {
  const { profile } = input;
  const { provenance, kind, seen } = profile;
  const facts: [string, string][] = [
    ['Profile', `${profile.name} (${kind})`],
    [
      'Made of',
      [provenance.source, provenance.date, provenance.vllm && `vLLM ${provenance.vllm}`]
        .filter(Boolean)
        .join(', ') || 'not said',
    ],
  ];
  if (profile.kind === 'fitted') {
    const { errors, undetermined, ensemble } = profile.fit;
    const names = { stepMs: 'step', ttft: 'TTFT', tpot: 'TPOT', e2e: 'E2E', p90: '90th percentile' } as const;
    const parts = Object.entries(names).flatMap(([name, what]) => {
      const error = errors[name as keyof typeof names];
      return error === null ? [] : [`${what} ${decimal(100 * error, 2)} %`];
    });
    facts.push(['Errors on held-out measurements', `${parts.join(', ')} (${errors.heldOut}; medians)`]);
    facts.push([
      'Not determined by the data',
      undetermined.length === 0 ? 'nothing' : undetermined.join(', '),
    ]);
    facts.push(['Error bands', ensemble.length === 0 ? 'none' : `from other fits within 5 % of the best`]);
  } else
    facts.push([
      'Errors',
      kind === 'roofline'
        ? 'not known: nothing was measured'
        : 'not known: tables were not checked against a server',
    ]);
  const winner = found.finalists[0].capacity.run.extrapolated;
  const outside =
    seen === null
      ? 'all: the profile was not measured'
      : `${percent(winner)} of the best options’ at the load found`;
  facts.push(['Steps outside the profile’s measurements', outside]);
  const { scheduler, acceptanceRate, search } = input;
  const drafts = found.finalists.map(({ point }) => optionsAt(scheduler, point).numSpeculativeTokens ?? 0);
  if (drafts.some((count) => count > 0))
    facts.push([
      'Drafts',
      `each is accepted with probability ${acceptanceRate ?? ACCEPTANCE_RATE}, which is assumed; making them takes no time`,
    ]);
  if (search === 'halving')
    facts.push([
      'Search',
      'successive halving: most points were run with the first requests of the trace only',
    ]);
  facts.push(['Left out', 'HTTP, tokenizer and network; the router’s own time; failures']);
  return facts;
}

/** Warnings of a plan. */
export function warningsOf({ found, input: { slo } }: Told): string[] {
  const warnings: string[] = [];
  const [winner] = found.finalists;
  const { run, requestsPerSecond } = winner.capacity;
  if (run.extrapolated > 0) {
    const share = run.extrapolated === 1 ? 'all' : percent(run.extrapolated);
    warnings.push(
      `The best options rest on extrapolation: ${share} of their steps lie outside the profile’s measurements.`,
    );
  }
  if (requestsPerSecond === 0) {
    warnings.push(`No point meets ${sloInWords(slo)} at any load that was tried.`);
  } else if (requestsPerSecond < found.requestsPerSecond) {
    warnings.push(
      `No point meets the objective at the trace’s own load of ${figure(found.requestsPerSecond)} requests/s.`,
    );
  }
  if (run.refused > 0) warnings.push(`${run.refused} requests fit into no engine with the best options.`);
  return warnings;
}
