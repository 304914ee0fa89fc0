import { createRequire } from 'node:module';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { packageRoot } from '../core/package-root.js';

const { version } = createRequire(import.meta.url)(`${packageRoot()}/package.json`) as { version: string };

/** The machine on which a report's figures were measured, as the report names it. */
export interface Host {
  cpu: string;
  cores: number;
  memoryGiB: number;
  platform: string;
  node: string;
  v8: string;
  blockstep: string;
}

export function readHost(): Host {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform}-${process.arch}`,
    node: process.version,
    v8: process.versions.v8,
    blockstep: version,
  };
}
