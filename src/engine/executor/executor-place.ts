import { badArgument, show } from '../../base/errors.js';
import { checkDevice, checkStream, isSameDevice } from '../../core/placement.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';

/** The GPU that an executor computes on, and its stream there. */
export interface ExecutorPlace {
  readonly device: string;
  readonly stream: bigint;
}

/** Where an executor says that it computes; null for the host. @throws ERR_BLOCKSTEP_BAD_ARG */
export function takePlace(device: unknown = 'cpu', stream: unknown = null): ExecutorPlace | null {
  const checked = checkDevice('executor.device', device);
  const its = checkStream('executor.stream', stream);
  if (checked === 'cpu') {
    if (its !== null) throw badArgument('executor.stream', show(its), 'null for an executor on cpu');
    return null;
  }
  // Without a stream, what gathers the tables could not be ordered with what reads them.
  if (its === null) throw badArgument('executor.stream', 'null', `its stream on ${checked}, as a BigInt`);
  return Object.freeze({ device: checked, stream: its });
}

/**
 * The options of a scheduler that follows its executor: `device` and `stream` are the executor's, which the options may
 * repeat but not contradict.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function placed(options: SchedulerOptions, place: ExecutorPlace | null): SchedulerOptions {
  if (place === null) return options;
  const { device = place.device, stream = place.stream } = options;
  if (!isSameDevice(checkDevice('device', device), place.device))
    throw badArgument('device', show(device), `${place.device}, which is the executor's`);
  if (checkStream('stream', stream) !== place.stream)
    throw badArgument('stream', show(stream), `${place.stream}n, which is the executor's`);
  return Object.create(options, { device: { value: device }, stream: { value: stream } }) as SchedulerOptions;
}
