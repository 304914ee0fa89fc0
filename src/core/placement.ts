import { BlockstepError, badArgument, show } from '../base/errors.js';
import { loadAddon } from './loader.js';
import type { BackendReport, NativeAddon, NativeConfig, NativeCore } from './native.js';

/** Where the state of a core is kept. All optional: by default on the host alone. */
export interface PlacementOptions {
  /**
   * `host`: nowhere else. `cuda`: on the host, and mirrored on a GPU. `auto` (default): `cuda` where the executor's
   * device is a GPU that can be used, otherwise `host`.
   */
  backend?: 'auto' | 'host' | 'cuda';
  /**
   * Who decides. `host` (default): the host's instance does, and the GPU's applies the same log. `device`: the GPU's does, and
   * the host's follows, for proof and measurement: every step waits for the GPU (`Scheduler.scheduleAsync`). It implies
   * `backend: 'cuda'`, on the GPU of `device`, or else on GPU 0: without one there is an error, never another authority.
   */
  authority?: 'host' | 'device';
  /** The executor's device: `cpu` (default), `cuda` (the GPU 0) or `cuda:N`. */
  device?: string;
  /** The executor's stream, a cudaStream_t as an address: every launch goes there. Default: a stream of our own. */
  stream?: bigint | null;
}

/** The options, checked, with every default filled in. */
export type Placement = Readonly<Required<PlacementOptions>>;

/** What became of a placement. */
export interface Backend {
  readonly name: 'host' | 'cuda';
  /** Who decides. */
  readonly authority: 'host' | 'device';
  /** Why it is this one, in words. */
  readonly reason: string;
}

const DEVICE = /^cpu$|^cuda(?::(0|[1-9][0-9]{0,2}))?$/;

/**
 * Checks where a core is to be kept. Every property is read once.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function resolvePlacement(options: PlacementOptions): Placement {
  const { backend = 'auto', authority = 'host', device = 'cpu', stream = null } = options;
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
  return Object.freeze({ backend, authority, device, stream });
}

/** Returns the name of a device. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkDevice(name: string, device: unknown): string {
  if (typeof device === 'string' && DEVICE.test(device)) return device;
  throw badArgument(name, show(device), 'cpu, cuda or cuda:N');
}

/** Returns a cudaStream_t, or null for none. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkStream(name: string, stream: unknown): bigint | null {
  if (stream === null) return null;
  if (typeof stream !== 'bigint') throw badArgument(name, show(stream), 'a BigInt or null');
  if (stream >= 0n && stream < 1n << 64n) return stream;
  throw badArgument(name, show(stream), 'an address, from 0n to 2n ** 64n - 1n');
}

/** Do both names mean the same device? `cuda` is the GPU 0. */
export function isSameDevice(a: string, b: string): boolean {
  return a.replace(/^cuda$/, 'cuda:0') === b.replace(/^cuda$/, 'cuda:0');
}

/**
 * Which back ends this machine can use, and why not the others. Trying a GPU makes a CUDA context there, which takes some
 * tenths of a second.
 * @param device the GPU to try, as in `PlacementOptions`
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_NATIVE
 */
export function probeBackends(device = 'cuda', addon: NativeAddon = loadAddon()): BackendReport[] {
  return addon.probe(gpuOf(resolvePlacement({ device })));
}

/** A native core, and which back end it got. @throws ERR_BLOCKSTEP_CUDA if CUDA was asked for and cannot be used */
export function createNative(
  addon: NativeAddon,
  config: NativeConfig,
  exchange: ArrayBuffer,
  placement: Placement,
): { native: NativeCore; backend: Backend } {
  const { authority, device, stream } = placement;
  // A caller that asks for decisions of the GPU must not be given those of the host instead.
  const backend = authority === 'device' ? 'cuda' : placement.backend;
  const onHost = (reason: string): { native: NativeCore; backend: Backend } => ({
    native: addon.create(config, exchange),
    backend: Object.freeze({ name: 'host', authority, reason }),
  });
  if (backend === 'host') return onHost('asked for');
  if (backend === 'auto' && device === 'cpu') return onHost("the executor's device is cpu");
  try {
    // One log for each step that can be in flight, and one for the step being planned; so are the frames.
    const cuda = { device: gpuOf(placement), stream, maxLogs: config.numFrames };
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

/** The number of the GPU that a device names; 0 for `cpu`. */
export function gpuOf({ device }: Pick<Placement, 'device'>): number {
  return Number(DEVICE.exec(device)?.[1] ?? 0);
}
