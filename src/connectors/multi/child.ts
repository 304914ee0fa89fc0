import { badArg, checkName } from '../../base/checks.js';
import { BlockstepError, badArgument, show } from '../../base/errors.js';
import type { BlockPins, SchedulerConnector } from '../../scheduler/connector/connector.js';
import { type ConnectorMethods, takeConnector } from '../../scheduler/connector/connector-methods.js';

/** One connector among several, as `MultiConnector` keeps it. */
export interface Child {
  /** Place among the connectors, from 0. */
  readonly index: number;
  /** What people call it: unique among the children. */
  readonly name: string;
  readonly methods: ConnectorMethods;
  /**
   * Its first child index in the whole. A connector that itself is made of several has as many indexes as it has
   * children, one after the other.
   */
  readonly first: number;
  /** How many child indexes it has. */
  readonly count: number;
}

/** A connector, and what people call it. */
export interface NamedConnector {
  readonly name: string;
  readonly connector: SchedulerConnector;
}

/**
 * Checks the connectors that are to work together.
 * @param numRanks how many ranks report, for connectors that do not declare their reporters
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function takeChildren(children: unknown, numRanks: number): readonly Child[] {
  if (!Array.isArray(children) || children.length === 0)
    throw badArg('children', children, 'a list of at least one connector');
  const taken: Child[] = [];
  let first = 0;
  for (const [index, each] of (children as unknown[]).entries()) {
    const { name, connector } = takeNamed(each, index);
    if (taken.some((child) => child.name === name))
      throw badArgument(`children[${index}].name`, show(name), 'a name that no other child has');
    const methods = takeConnector(connector, numRanks);
    const count = methods.reporters.length;
    taken.push({ index, name, methods, first, count });
    first += count;
  }
  return taken;
}

function takeNamed(child: unknown, index: number): NamedConnector {
  const isObject = typeof child === 'object' && child !== null;
  if (!isObject) throw badArg(`children[${index}]`, child, 'a connector, or { name, connector }');
  if ('connector' in child) {
    const { name, connector } = child as NamedConnector;
    return { name: checkName(`children[${index}].name`, name, 1), connector };
  }
  return {
    name: `${child.constructor?.name ?? 'connector'} ${index}`,
    connector: child as SchedulerConnector,
  };
}

/**
 * The pins of one child: it can take away only pins that it has set.
 * @param name of the child, for the message
 */
export function pinsOf(name: string, pins: BlockPins): BlockPins {
  const counts = new Map<number, number>();
  const count = (block: number, by: number): void => {
    const now = (counts.get(block) ?? 0) + by;
    if (now === 0) counts.delete(block);
    else counts.set(block, now);
  };
  return {
    pin(blocks) {
      pins.pin(blocks);
      for (const block of blocks) count(block, 1);
    },
    unpin(blocks) {
      for (const [i, block] of blocks.entries()) {
        if (counts.has(block)) {
          count(block, -1);
          continue;
        }
        for (const taken of blocks.subarray(0, i)) count(taken, 1);
        throw new BlockstepError('ERR_BLOCKSTEP_NOT_PINNED', `${name} has no pin of block ${block}`);
      }
      pins.unpin(blocks);
    },
  };
}
