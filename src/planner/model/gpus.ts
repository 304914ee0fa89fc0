/** Figures of a GPU's data sheet. */
export interface Gpu {
  readonly name: string;
  /** Bytes of its memory, and the bandwidth in bytes per second. */
  readonly memoryBytes: number;
  readonly memoryBytesPerSecond: number;
  /** Operations in 16 bits per second, without sparsity. In 8 bits there are twice as many. */
  readonly flopsPerSecond: number;
  /** Bytes per second to other GPUs of the machine, in one direction. */
  readonly linkBytesPerSecond: number;
}

const GB = 1e9;
const TB = 1e12;
const TFLOPS = 1e12;

/** GPUs by the names of `--gpu`, with the figures of their data sheets. None was measured here. */
export const GPUS: Readonly<Record<string, Gpu>> = {
  a10g: gpu('NVIDIA A10G', 24, 0.6, 70, 32),
  a100: gpu('NVIDIA A100 SXM 80 GB', 80, 2.039, 312, 300),
  b200: gpu('NVIDIA B200', 180, 8, 2250, 900),
  h100: gpu('NVIDIA H100 SXM', 80, 3.35, 989, 450),
  'h100-pcie': gpu('NVIDIA H100 PCIe', 80, 2.0, 756, 64),
  h200: gpu('NVIDIA H200 SXM', 141, 4.8, 989, 450),
  l4: gpu('NVIDIA L4', 24, 0.3, 121, 32),
  l40s: gpu('NVIDIA L40S', 48, 0.864, 362, 32),
  mi300x: gpu('AMD MI300X', 192, 5.3, 1307, 448),
  'rtx-4090': gpu('NVIDIA GeForce RTX 4090', 24, 1.008, 165, 32),
  'rtx-pro-6000': gpu('NVIDIA RTX PRO 6000 Blackwell Server Edition', 96, 1.597, 503, 64),
};

function gpu(
  name: string,
  gigabytes: number,
  terabytes: number,
  teraflops: number,
  linkGigabytes: number,
): Gpu {
  return {
    name,
    memoryBytes: gigabytes * GB,
    memoryBytesPerSecond: terabytes * TB,
    flopsPerSecond: teraflops * TFLOPS,
    linkBytesPerSecond: linkGigabytes * GB,
  };
}
