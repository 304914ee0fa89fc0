import { badArg, checkName } from '../../base/checks.js';
import { BlockstepError, badArgument, show } from '../../base/errors.js';
import type { BlockPins, SchedulerConnector } from '../../scheduler/connector/connector.js';
import { type ConnectorMethods, parseConnector } from '../../scheduler/connector/connector-methods.js';

/** One of the connectors of a `MultiConnector`. */
export interface Child {
  /** Place among the connectors, from 0. */
  readonly index: number;
  /** Name for people, unique among the children. */
  readonly name: string;
  readonly methods: ConnectorMethods;
  /**
   * The child's first index in the whole. A connector that combines several connectors has as many
   * consecutive indexes as children.
   */
  readonly first: number;
  /** Number of child indexes. */
  readonly count: number;
}

/** A connector and its name for people. */
export interface NamedConnector {
  readonly name: string;
  readonly connector: SchedulerConnector;
}

/**
 * Checks the connectors that a `MultiConnector` combines.
 * @param numRanks number of ranks that report, for connectors that do not declare their reporters
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseChildren(children: unknown, numRanks: number): readonly Child[] {
  if (!Array.isArray(children) || children.length === 0)
    throw badArg('children', children, 'a list of at least one connector');
  const parsed: Child[] = [];
  let first = 0;
  for (const [index, each] of (children as unknown[]).entries()) {
    const { name, connector } = parseNamed(each, index);
    if (parsed.some((child) => child.name === name))
      throw badArgument(`children[${index}].name`, show(name), 'a name that no other child has');
    const methods = parseConnector(connector, numRanks);
    const count = methods.reporters.length;
    parsed.push({ index, name, methods, first, count });
    first += count;
  }
  return parsed;
}

function parseNamed(child: unknown, index: number): NamedConnector {
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
 * Wraps the pins for one child. The child can remove only pins that it has set.
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
        for (const parsed of blocks.subarray(0, i)) count(parsed, 1);
        throw new BlockstepError('ERR_BLOCKSTEP_NOT_PINNED', `${name} has no pin of block ${block}`);
      }
      pins.unpin(blocks);
    },
  };
}
