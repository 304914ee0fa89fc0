import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPOSITORY } from '../../machine.js';

/** The origin of a build. In a bundle this is its manifest, where there is no git to ask. */
export interface Build {
  commit: string | null;
  /** Sources differ from the commit. */
  dirty: boolean | null;
  versions: Record<string, string>;
}

/** Where a bundle keeps its manifest, in the tree that it is unpacked to. */
export const MANIFEST = 'gpu-bundle.json';

/** The tree that this program belongs to: a checkout, or an unpacked bundle. Both have the same layout. */
export const TREE = REPOSITORY;

/** The origin of this tree. */
export function readBuild(root = TREE): Build {
  const manifest = join(root, MANIFEST);
  if (existsSync(manifest)) {
    const { commit, dirty, versions } = JSON.parse(readFileSync(manifest, 'utf8')) as Build;
    return { commit, dirty, versions };
  }
  const status = git(root, 'status', '--porcelain');
  return {
    commit: git(root, 'rev-parse', 'HEAD'),
    dirty: status === null ? null : status.length > 0,
    versions: readVersions(root),
  };
}

/** Of the package, and of what it is tested with. */
export function readVersions(root = TREE): Record<string, string> {
  const version = (folder: string): string =>
    (JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as { version: string }).version;
  return { blockstep: version('.'), node: process.version, vitest: version('node_modules/vitest') };
}

function git(root: string, ...args: string[]): string | null {
  try {
    return execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return null;
  }
}
