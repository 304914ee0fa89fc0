import { types } from 'node:util';
import { badArg } from '../../base/checks.js';
import { type Bound, bindMethods } from '../../base/foreign/foreign-method.js';
import type { Protection, SchedulerConnector } from './connector.js';

const REQUIRED = [
  'getNumNewMatchedTokens',
  'updateStateAfterAlloc',
  'buildMetadata',
  'requestFinished',
] as const;
const OPTIONAL = [
  'bind',
  'bindPins',
  'onNewRequest',
  'requestRefused',
  'updateConnectorOutput',
  'requiresKvDelivery',
  'cancelSending',
  'resetCache',
  'hasPendingWork',
  'shutdown',
] as const;
const PROTECTIONS: readonly Protection[] = ['own', 'pin', 'fence'];
const MAX_RANK = 65_535;

/** A method that a connector may leave out. */
export type OptionalMethod = (typeof OPTIONAL)[number];
type Method = (typeof REQUIRED)[number] | OptionalMethod;

/** A checked connector. Its methods were looked up once, and are called on the connector itself. */
export interface ConnectorMethods extends Partial<Record<Method, Bound>> {
  readonly getNumNewMatchedTokens: Bound;
  readonly updateStateAfterAlloc: Bound;
  readonly buildMetadata: Bound;
  readonly requestFinished: Bound;
  /**
   * How the connector protects blocks: at least one kind, each once; several kinds if it has
   * several children.
   */
  readonly protection: readonly Protection[];
  /** The ranks that report, by child. */
  readonly reporters: readonly (readonly number[])[];
  /** The hash seed for a scheduler that was given none. */
  readonly hashSeed: Uint8Array | null;
}

/**
 * Checks a connector, and looks up its methods.
 * @param numRanks the number of ranks. Undefined if unknown: the connector may then declare any
 * ranks, and has one rank if it declares none
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the method or property that is missing or wrong
 */
export function parseConnector(connector: SchedulerConnector, numRanks?: number): ConnectorMethods {
  if (typeof connector !== 'object' || connector === null) {
    throw badArg('connector', connector, 'an object with the methods of a SchedulerConnector');
  }
  const allRanks = Array.from({ length: numRanks ?? 1 }, (_, rank) => rank);
  const { protection = 'own', reporters = [allRanks] } = connector;
  const calls = bindMethods('connector', connector, REQUIRED, OPTIONAL);
  const parsed = parseReporters(reporters, (numRanks ?? MAX_RANK + 1) - 1);
  const hashSeed = parseSeed(connector.hashSeed ?? null);
  return { ...calls, protection: parseProtection(protection), reporters: parsed, hashSeed };
}

function parseSeed(seed: unknown): Uint8Array | null {
  if (seed === null || (types.isUint8Array(seed) && seed.length === 16)) return seed;
  throw badArg('connector.hashSeed', seed, 'a Uint8Array of 16 bytes, or null');
}

function parseProtection(protection: unknown): readonly Protection[] {
  const all: readonly unknown[] = Array.isArray(protection) ? protection : [protection];
  const wrong = all.find((each) => !PROTECTIONS.includes(each as Protection));
  if (all.length > 0 && wrong === undefined) return [...new Set(all as Protection[])];
  throw badArg('connector.protection', wrong ?? protection, `one or several of ${PROTECTIONS.join(', ')}`);
}

/** The names of the optional methods that a connector has. */
export function optionalMethods(calls: ConnectorMethods): OptionalMethod[] {
  return OPTIONAL.filter((name) => calls[name] !== undefined);
}

function parseReporters(reporters: unknown, lastRank: number): readonly (readonly number[])[] {
  const expected = 'for each child a list of different ranks';
  if (!Array.isArray(reporters) || reporters.length === 0) {
    throw badArg('connector.reporters', reporters, expected);
  }
  return reporters.map((ranks: unknown, child) => {
    const name = `connector.reporters[${child}]`;
    if (!Array.isArray(ranks) || ranks.length === 0 || new Set(ranks).size < ranks.length) {
      throw badArg(name, ranks, 'a list of at least one rank, each once');
    }
    for (const rank of ranks) {
      if (Number.isInteger(rank) && rank >= 0 && rank <= lastRank) continue;
      throw badArg(name, rank, `ranks from 0 to ${lastRank}`);
    }
    return [...(ranks as number[])];
  });
}
