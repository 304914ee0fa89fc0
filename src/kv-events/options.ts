import { badArg, checkName, checkOneOf } from '../base/checks.js';
import { checkInteger } from '../base/errors.js';
import { checkNames, knownNames } from '../base/known-names.js';

/** Options of a `KvEventPublisher`, under vLLM's names (`kv_events_config`). All have defaults. */
export interface KvEventPublisherOptions {
  /**
   * The ZeroMQ address where subscribers receive events: `tcp://*:5557`, `tcp://host:5557`,
   * `ipc:///path`. The socket binds if the address has a `*`, `::`, or is `ipc:` or `inproc:`;
   * otherwise it connects. Default `tcp://*:5557`, which every machine can reach.
   */
  endpoint?: string;
  /** The address where subscribers request missed batches; the socket binds. Default: none. */
  replayEndpoint?: string | null;
  /**
   * The first frame of every message, by which subscribers filter. llm-d wants `kv@<pod>@<model>`.
   * Default empty.
   */
  topic?: string;
  /** Batches that are kept for replay, 1 to 1,000,000. Default 10,000. */
  bufferSteps?: number;
  /**
   * Most batches that wait for a slow subscriber. Further batches are lost for this subscriber.
   * Default 100,000.
   */
  hwm?: number;
  /**
   * Most batches that wait to be encoded. Further batches are dropped and counted. Default 100,000.
   */
  maxQueueSize?: number;
  /**
   * `map` (default): events as vLLM has written them since 0.26. `array`: the older form, with the
   * replies to replay of that time.
   */
  eventFormat?: 'map' | 'array';
  /**
   * `bytes` (default): a hash is 16 bytes, the most significant first. `int`: its last 8 bytes as a
   * number (VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES).
   */
  hashFormat?: 'bytes' | 'int';
  /**
   * The published events: `new` (default), or `all`, which includes the blocks that requests hit.
   */
  report?: 'new' | 'all';
  /** Rank of this engine among engines of one model. It is added to the ports. Default 0. */
  dataParallelRank?: number;
}

const OPTIONS = knownNames<KvEventPublisherOptions>(
  'the options of a KvEventPublisher',
  {
    endpoint: true,
    replayEndpoint: true,
    topic: true,
    bufferSteps: true,
    hwm: true,
    maxQueueSize: true,
    eventFormat: true,
    hashFormat: true,
    report: true,
    dataParallelRank: true,
  },
  { enableKvCacheEvents: 'to have a publisher turns them on', publisher: 'it speaks ZeroMQ' },
);

const MAX_TOPIC = 1024;

/** Checked options. */
export type ParsedPublisherOptions = Readonly<Required<KvEventPublisherOptions>>;

/** @throws ERR_BLOCKSTEP_BAD_ARG */
export function parsePublisherOptions(options: KvEventPublisherOptions): ParsedPublisherOptions {
  if (typeof options !== 'object' || options === null) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  const { endpoint = 'tcp://*:5557', replayEndpoint = null, topic = '', bufferSteps = 10_000 } = options;
  const { hwm = 100_000, maxQueueSize = 100_000, dataParallelRank = 0 } = options;
  const rank = checkInteger('dataParallelRank', dataParallelRank, 0, 65_535);
  if (checkName('topic', topic, 0).length > MAX_TOPIC)
    throw badArg('topic', topic, `at most ${MAX_TOPIC} characters`);
  return {
    endpoint: offset(checkEndpoint('endpoint', endpoint), rank),
    replayEndpoint:
      replayEndpoint === null ? null : offset(checkEndpoint('replayEndpoint', replayEndpoint), rank),
    topic,
    bufferSteps: checkInteger('bufferSteps', bufferSteps, 1, 1_000_000),
    hwm: checkInteger('hwm', hwm, 1, 2 ** 31 - 1),
    maxQueueSize: checkInteger('maxQueueSize', maxQueueSize, 1, 10_000_000),
    eventFormat: checkOneOf('eventFormat', options.eventFormat, ['map', 'array']),
    hashFormat: checkOneOf('hashFormat', options.hashFormat, ['bytes', 'int']),
    report: checkOneOf('report', options.report, ['new', 'all']),
    dataParallelRank: rank,
  };
}

/** Whether vLLM would bind an address, and not connect to it. */
export function isBound(endpoint: string): boolean {
  return endpoint.includes('*') || endpoint.includes('::') || /^(ipc|inproc):/.test(endpoint);
}

function checkEndpoint(name: string, value: unknown): string {
  const parts =
    typeof value === 'string' ? /^(?:tcp:\/\/.+:(\d+|\*)|(?:ipc|inproc):\/\/.+)$/.exec(value) : null;
  // ZeroMQ takes a port that is too large modulo 65,536.
  const port = parts?.[1] ?? '*';
  if (parts !== null && (port === '*' || Number(port) <= 65_535)) return value as string;
  throw badArg(name, value, 'an address of ZeroMQ, such as tcp://*:5557 or ipc:///path');
}

/** The address of a rank: the rank is added to the port, or appended to the name. */
function offset(endpoint: string, rank: number): string {
  if (rank === 0) return endpoint;
  if (!endpoint.startsWith('tcp:')) return `${endpoint}_dp${rank}`;
  const colon = endpoint.lastIndexOf(':');
  const port = endpoint.slice(colon + 1);
  return port === '*'
    ? endpoint
    : `${endpoint.slice(0, colon)}:${checkInteger('port', Number(port) + rank, 1, 65_535)}`;
}
