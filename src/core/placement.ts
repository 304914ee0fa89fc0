import { BlockstepError, badArgument, show } from '../base/errors.js';
import { loadAddon } from './loader.js';
import type { BackendReport, NativeAddon, NativeConfig, NativeCore } from './native/native.js';

/**
 * The place of a core's state, and the side that decides. Every option has a default; by default
 * the state is on the host alone.
 */
export interface PlacementOptions {
  /**
   * `host`: the state is on the host alone. `cuda`: it is on the host, and mirrored on a GPU.
   * `auto` (default): like `cuda` if the executor's device is a GPU that can be used, otherwise
   * like `host`.
   */
  backend?: 'auto' | 'host' | 'cuda';
  /**
   * The side that decides. `host` (default): the host's instance decides, and the GPU's instance
   * applies the same log. `device`: the GPU's instance decides, and the host's instance follows.
   * `device` is for proof and measurement: every step waits for the GPU
   * (`Scheduler.scheduleAsync`). It implies `backend: 'cuda'` on the GPU that `device` names,
   * otherwise on GPU 0. If that GPU cannot be used, an error is thrown; the host never decides in
   * its place.
   */
  authority?: 'host' | 'device';
  /** The executor's device: `cpu` (default), `cuda` (which is GPU 0) or `cuda:N`. */
  device?: string;
  /**
   * The executor's stream, the address of a cudaStream_t. Every launch goes into it. Default: a
   * stream of the core's own.
   */
  stream?: bigint | null;
  /**
   * True: a thread of the core launches the work of a mirror on a GPU, so the JavaScript thread
   * never waits for the driver. During steps it uses a processor. It cannot be combined with
   * `stream`, because two threads would then determine the order, or with `authority: 'device'`.
   * Default: false.
   */
  launchThread?: boolean;
}

/** Checked `PlacementOptions`, with every default filled in. */
export type Placement = Readonly<Required<PlacementOptions>>;

/** The back end that a core got. */
export interface Backend {
  /** `host`: the state is on the host alone. `cuda`: it is on the host and on a GPU. */
  readonly name: 'host' | 'cuda';
  /** The side that decides. */
  readonly authority: 'host' | 'device';
  /** Why the core got this back end, in words. */
  readonly reason: string;
}

const DEVICE = /^cpu$|^cuda(?::(0|[1-9][0-9]{0,2}))?$/;

/**
 * Checks placement options and fills in the defaults. Every property is read once. No GPU is tried
 * here.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option
 */
export function resolvePlacement(options: PlacementOptions): Placement {
  const {
    backend = 'auto',
    authority = 'host',
    device = 'cpu',
    stream = null,
    launchThread = false,
  } = options;
  if (backend !== 'auto' && backend !== 'host' && backend !== 'cuda') {
    throw badArgument('backend', show(backend), 'one of auto, host, cuda');
  }
  if (authority !== 'host' && authority !== 'device') {
    throw badArgument('authority', show(authority), 'one of host, device');
  }
  if (authority === 'device' && backend === 'host') {
    throw badArgument('backend', show(backend), "auto or cuda with authority 'device'");
  }
  checkDevice('device', device);
  checkStream('stream', stream);
  if (typeof launchThread !== 'boolean') throw badArgument('launchThread', show(launchThread), 'a boolean');
  if (launchThread && stream !== null) {
    throw badArgument('launchThread', 'true', 'false with a stream of the executor');
  }
  if (launchThread && authority === 'device') {
    throw badArgument('launchThread', 'true', "false with authority 'device'");
  }
  return Object.freeze({ backend, authority, device, stream, launchThread });
}

/** Returns `device` if it is the name of a device. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkDevice(name: string, device: unknown): string {
  if (typeof device === 'string' && DEVICE.test(device)) return device;
  throw badArgument(name, show(device), 'cpu, cuda or cuda:N');
}

/**
 * Returns `stream` if it is the address of a cudaStream_t, or null for none.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkStream(name: string, stream: unknown): bigint | null {
  if (stream === null) return null;
  if (typeof stream !== 'bigint') throw badArgument(name, show(stream), 'a BigInt or null');
  if (stream >= 0n && stream < 1n << 64n) return stream;
  throw badArgument(name, show(stream), 'an address, from 0n to 2n ** 64n - 1n');
}

/** Whether two names mean the same device. `cuda` and `cuda:0` do. */
export function isSameDevice(a: string, b: string): boolean {
  return a.replace(/^cuda$/, 'cuda:0') === b.replace(/^cuda$/, 'cuda:0');
}

/**
 * The back ends that this machine can use, and for the others why not. Trying a GPU makes a CUDA
 * context there, which takes some tenths of a second.
 * @param device the GPU to try, named as in `PlacementOptions`
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_NATIVE
 */
export function probeBackends(device = 'cuda', addon: NativeAddon = loadAddon()): BackendReport[] {
  return addon.probe(gpuOf(resolvePlacement({ device })));
}

/**
 * Makes a native core, and says which back end it got.
 * @throws ERR_BLOCKSTEP_CUDA, or ERR_BLOCKSTEP_NO_MEMORY, if CUDA was asked for and cannot be used;
 * the errors of a core on the host
 */
export function createNative(
  addon: NativeAddon,
  config: NativeConfig,
  exchange: ArrayBuffer,
  placement: Placement,
): { native: NativeCore; backend: Backend } {
  const { authority, device, stream, launchThread } = placement;
  // The host must never decide in place of a GPU that the caller asked to decide.
  const backend = authority === 'device' ? 'cuda' : placement.backend;
  const onHost = (reason: string): { native: NativeCore; backend: Backend } => ({
    native: addon.create(config, exchange),
    backend: Object.freeze({ name: 'host', authority, reason }),
  });
  if (backend === 'host') return onHost('asked for');
  if (backend === 'auto' && device === 'cpu') return onHost("the executor's device is cpu");
  try {
    // As many logs as frames: one for each step in flight, and one for the step being planned.
    const cuda = { device: gpuOf(placement), stream, launchThread, maxLogs: config.numFrames };
    const native = addon.create({ ...config, cuda, authority }, exchange);
    return { native, backend: Object.freeze({ name: 'cuda', authority, reason: whyCuda(placement) }) };
  } catch (error) {
    if (!(error instanceof BlockstepError)) throw error;
    if (error.code !== 'ERR_BLOCKSTEP_CUDA' && error.code !== 'ERR_BLOCKSTEP_NO_MEMORY') throw error;
    const needed = authority === 'device' ? "authority 'device' needs a GPU, and " : '';
    const why = `${needed}the CUDA back end cannot be used: ${error.message}`;
    if (backend === 'auto') return onHost(why);
    throw new BlockstepError(error.code, why, { cause: error });
  }
}

function whyCuda({ backend, authority, device }: Placement): string {
  if (backend === 'cuda') return 'asked for';
  return authority === 'device' ? "authority 'device' needs a GPU" : `the executor's device is ${device}`;
}

/** The number of the GPU that a device names: N of `cuda:N`; 0 for `cuda` and for `cpu`. */
export function gpuOf({ device }: Pick<Placement, 'device'>): number {
  return Number(DEVICE.exec(device)?.[1] ?? 0);
}
