import { badArgument, show } from '../../base/errors.js';
import { checkDevice, checkStream, isSameDevice } from '../../core/placement.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';

/** The GPU that an executor computes on, and the executor's stream there. */
export interface ExecutorPlace {
  /** `cuda` (GPU 0) or `cuda:N`. */
  readonly device: string;
  /** The cudaStream_t, as an address. */
  readonly stream: bigint;
}

/** The place that an executor names by its `device` and `stream`; null for the host. @throws ERR_BLOCKSTEP_BAD_ARG */
export function parsePlace(device: unknown = 'cpu', stream: unknown = null): ExecutorPlace | null {
  const checked = checkDevice('executor.device', device);
  const its = checkStream('executor.stream', stream);
  if (checked === 'cpu') {
    if (its !== null) throw badArgument('executor.stream', show(its), 'null for an executor on cpu');
    return null;
  }
  // The stream orders the kernel that gathers the tables before the kernels that read the tables.
  if (its === null) throw badArgument('executor.stream', 'null', `its stream on ${checked}, as a BigInt`);
  return Object.freeze({ device: checked, stream: its });
}

/**
 * The options of a scheduler on the device of its executor: `device` and `stream` become the
 * executor's.
 * @throws ERR_BLOCKSTEP_BAD_ARG for options that name another device or stream
 */
export function placed(options: SchedulerOptions, place: ExecutorPlace | null): SchedulerOptions {
  if (place === null) return options;
  const { device = place.device, stream = place.stream } = options;
  if (!isSameDevice(checkDevice('device', device), place.device))
    throw badArgument('device', show(device), `${place.device}, which is the executor's`);
  if (checkStream('stream', stream) !== place.stream)
    throw badArgument('stream', show(stream), `${place.stream}n, which is the executor's`);
  return { ...options, device, stream };
}
