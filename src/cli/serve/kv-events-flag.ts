// Reads `--kv-events-config`.
import { InvalidArgumentError } from 'commander';
import { isRecord } from '../../base/checks.js';
import type { KvEventPublisherOptions } from '../../kv-events/index.js';

/** The keys of vLLM's `--kv-events-config`, and our options. */
const NAMES: Readonly<Record<string, keyof KvEventPublisherOptions>> = {
  endpoint: 'endpoint',
  replay_endpoint: 'replayEndpoint',
  buffer_steps: 'bufferSteps',
  hwm: 'hwm',
  max_queue_size: 'maxQueueSize',
  topic: 'topic',
  // vLLM lacks these keys. It has no choice, an environment variable, and a parameter of requests
  // instead.
  event_format: 'eventFormat',
  hash_format: 'hashFormat',
  report: 'report',
};

/**
 * Reads the value of `--kv-events-config`, JSON as in vLLM.
 * @returns null if it turns events off
 * @throws InvalidArgumentError for invalid JSON or unknown keys; the publisher checks the values
 */
export function parseKvEventsConfig(text: string): KvEventPublisherOptions | null {
  let config: unknown;
  try {
    config = JSON.parse(text);
  } catch (error) {
    throw new InvalidArgumentError(`Expected JSON (${(error as Error).message}).`);
  }
  if (!isRecord(config)) throw new InvalidArgumentError('Expected a JSON object.');
  const { enable_kv_cache_events: isOn = true, publisher = 'zmq', ...rest } = config;
  if (typeof isOn !== 'boolean')
    throw new InvalidArgumentError('Expected enable_kv_cache_events to be true or false.');
  if (publisher !== 'zmq' && publisher !== 'null' && publisher !== null)
    throw new InvalidArgumentError('Expected publisher to be "zmq" or "null".');
  const options: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(rest)) {
    if (!Object.hasOwn(NAMES, key))
      throw new InvalidArgumentError(
        `There is no "${key}" in it. Expected ${Object.keys(NAMES).join(', ')}.`,
      );
    options[NAMES[key]] = value;
  }
  return isOn && publisher === 'zmq' ? options : null;
}
