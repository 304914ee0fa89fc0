import { checkNumber, isObject } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { StepCost } from '../../executors/cost-model/step-features.js';
import { COEFFICIENTS, type Coefficients, parseCoefficients, priorCoefficients } from './coefficients.js';
import type { Gpu } from './gpus.js';
import { type Physics, parsePhysics, physicsOf } from './physics.js';
import { type HostTime, PhysicsCost } from './physics-cost.js';
import { parseSeenRange, type SeenRange } from './seen-range.js';
import { type CostTable, parseTable, TableCost } from './table-cost.js';

/** The version of the format of profiles. */
export const PROFILE_SCHEMA = 'blockstep-profile/1';

/** The origin of a profile's figures; null: unknown. */
export interface Provenance {
  model: string | null;
  gpu: string | null;
  gpus: number;
  vllm: string | null;
  driver: string | null;
  /** ISO 8601. */
  date: string | null;
  /** The source file, in words, and its SHA-256. */
  source: string | null;
  sha256: string | null;
}

/**
 * Errors of a fit on steps or requests that it did not see: medians of absolute relative errors,
 * 0.01 = 1 %; null: unknown.
 */
export interface FitErrors {
  heldOut: number;
  stepMs: number | null;
  ttft: number | null;
  tpot: number | null;
  e2e: number | null;
  /**
   * 90th percentile of the error of the end-to-end latency, or of the step time if steps were
   * fitted.
   */
  p90: number | null;
}

/** Facts of a fit. */
export interface FitFacts {
  errors: FitErrors;
  /** Coefficients that the data did not determine, so that they are near the prior. */
  undetermined: readonly (keyof Coefficients)[];
  /**
   * Other coefficients whose error is within 5 % of the best. They give the error band of
   * predictions.
   */
  ensemble: readonly Coefficients[];
}

export interface ProfileBase {
  schema: typeof PROFILE_SCHEMA;
  name: string;
  provenance: Provenance;
  /** The range of the measured steps; null: none was measured. */
  seen: SeenRange | null;
  host: HostTime;
  /** Tokens of KV cache that fit beside the weights; null: unknown. */
  kvTokens: number | null;
}

/** The cost of steps on given hardware, in the form of a file. */
export type Profile = ProfileBase &
  (
    | { kind: 'roofline'; physics: Physics; coefficients: Coefficients }
    | { kind: 'fitted'; physics: Physics; coefficients: Coefficients; fit: FitFacts }
    | { kind: 'table'; table: CostTable }
  );

/** vLLM's scheduler alone takes about 0.4 ms for 64 requests, and 1.7 ms for 256. */
export const USUAL_HOST: Readonly<HostTime> = { stepMs: 0.3, rowMs: 0.006 };

/** The provenance of unknown figures. */
export const NO_PROVENANCE: Readonly<Provenance> = {
  model: null,
  gpu: null,
  gpus: 1,
  vllm: null,
  driver: null,
  date: null,
  source: null,
  sha256: null,
};
const PROVENANCE = knownNames<Provenance>('the provenance of a profile', NO_PROVENANCE);
const HOST = knownNames<HostTime>('the host of a profile', USUAL_HOST);
const COMMON = ['schema', 'name', 'kind', 'provenance', 'seen', 'host', 'kvTokens'];
const KINDS: Readonly<Record<string, readonly string[]>> = {
  roofline: ['physics', 'coefficients'],
  fitted: ['physics', 'coefficients', 'fit'],
  table: ['table'],
};
/** Most members of an ensemble. */
const MOST_MEMBERS = 64;

/**
 * A profile by physics alone: nothing in it was measured.
 * @param config the parsed `config.json` of the model
 * @param name of the model
 * @throws ERR_BLOCKSTEP_BAD_ARG for a config that cannot be read, or weights that do not fit
 */
export function rooflineProfile(config: unknown, name: string, gpu: Gpu, gpus = 1): Profile {
  const { physics, kvTokens } = physicsOf(config, gpu, gpus);
  if (kvTokens < 1) {
    throw badArgument('gpu', `${gpus} x ${gpu.name}`, `more memory than the weights of ${name} take`);
  }
  return {
    schema: PROFILE_SCHEMA,
    kind: 'roofline',
    name: `${name} on ${gpus === 1 ? '' : `${gpus} x `}${gpu.name}`,
    provenance: { ...NO_PROVENANCE, model: name, gpu: gpu.name, gpus, source: 'config.json and data sheet' },
    seen: null,
    host: { ...USUAL_HOST },
    kvTokens,
    physics,
    coefficients: priorCoefficients(),
  };
}

/**
 * Checks and copies the content of a profile file.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the mistake: another schema, values that are no numbers or
 * negative, costs that fall
 */
export function parseProfile(value: unknown): Profile {
  if (!isObject(value)) throw badArgument('a profile', show(value), 'an object');
  if (value['schema'] !== PROFILE_SCHEMA)
    throw badArgument('schema', show(value['schema']), `"${PROFILE_SCHEMA}"`);
  const kind = value['kind'];
  if (typeof kind !== 'string' || !(kind in KINDS))
    throw badArgument('kind', show(kind), Object.keys(KINDS).join(', '));
  const names = Object.fromEntries([...COMMON, ...KINDS[kind]].map((name) => [name, true]));
  checkNames(value, knownNames<Record<string, unknown>>('a profile', names));
  const { name, kvTokens, host } = value;
  if (typeof name !== 'string' || name === '') throw badArgument('name', show(name), 'a text');
  if (!isObject(host)) throw badArgument('host', show(host), 'an object');
  checkNames(host, HOST);
  const base = {
    schema: PROFILE_SCHEMA,
    name,
    provenance: parseProvenance(value['provenance']),
    seen: parseSeenRange(value['seen']),
    host: {
      stepMs: checkNumber('host.stepMs', host['stepMs'], 0),
      rowMs: checkNumber('host.rowMs', host['rowMs'], 0),
    },
    kvTokens: kvTokens === null ? null : checkNumber('kvTokens', kvTokens, 1),
  } as const;
  if (kind === 'table') return { ...base, kind, table: parseTable(value['table']) };
  const physics = parsePhysics(value['physics']);
  const coefficients = parseCoefficients('coefficients', value['coefficients']);
  if (kind === 'roofline') return { ...base, kind, physics, coefficients };
  return { ...base, kind: 'fitted', physics, coefficients, fit: parseFit(value['fit']) };
}

/** The step cost of a profile. */
export function profileCost(profile: Profile): StepCost {
  if (profile.kind === 'table') return new TableCost(profile.table, profile.host);
  return new PhysicsCost(profile.physics, profile.coefficients, profile.host);
}

/** The costs of the error band of a profile: one for each member of its ensemble. */
export function bandCosts(profile: Profile): StepCost[] {
  if (profile.kind !== 'fitted') return [];
  return profile.fit.ensemble.map((each) => new PhysicsCost(profile.physics, each, profile.host));
}

function parseProvenance(value: unknown): Provenance {
  if (!isObject(value)) throw badArgument('provenance', show(value), 'an object');
  checkNames(value, PROVENANCE);
  const parsed: Record<string, unknown> = { ...NO_PROVENANCE };
  for (const [name, each] of Object.entries(value)) {
    if (name === 'gpus') checkNumber('provenance.gpus', each, 1);
    else if (each !== null && typeof each !== 'string')
      throw badArgument(`provenance.${name}`, show(each), 'a text or null');
    parsed[name] = each;
  }
  return parsed as unknown as Provenance;
}

function parseFit(value: unknown): FitFacts {
  if (!isObject(value)) throw badArgument('fit', show(value), 'an object');
  const { errors, undetermined, ensemble } = value;
  if (!isObject(errors)) throw badArgument('fit.errors', show(errors), 'an object');
  const error = (name: string): number | null =>
    errors[name] === null ? null : checkNumber(`fit.errors.${name}`, errors[name], 0);
  if (!Array.isArray(undetermined) || !undetermined.every((name) => COEFFICIENTS.includes(name)))
    throw badArgument('fit.undetermined', show(undetermined), `names of ${COEFFICIENTS.join(', ')}`);
  if (!Array.isArray(ensemble) || ensemble.length > MOST_MEMBERS)
    throw badArgument('fit.ensemble', show(ensemble), `a list of at most ${MOST_MEMBERS}`);
  return {
    errors: {
      heldOut: checkNumber('fit.errors.heldOut', errors['heldOut'], 0),
      stepMs: error('stepMs'),
      ttft: error('ttft'),
      tpot: error('tpot'),
      e2e: error('e2e'),
      p90: error('p90'),
    },
    undetermined: [...undetermined],
    ensemble: ensemble.map((each, i) => parseCoefficients(`fit.ensemble[${i}]`, each)),
  };
}
