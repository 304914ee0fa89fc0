import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** A folder that becomes the tree of a bundle. */
export class Stage {
  constructor(
    readonly folder: string,
    readonly root: string,
  ) {
    mkdirSync(folder, { recursive: true });
  }

  /** Copies a file or a folder of the repository to the same place, or to another one. */
  add(path: string, to = path): void {
    const target = join(this.folder, to);
    mkdirSync(dirname(target), { recursive: true });
    cpSync(join(this.root, path), target, { recursive: true, dereference: true });
  }

  /** Removes every file whose path matches. */
  remove(pattern: RegExp): void {
    for (const path of filesBelow(this.folder)) if (pattern.test(path)) rmSync(join(this.folder, path));
  }

  /** Every file, sorted, with its size and its SHA-256: the same for the same sources. */
  list(): { path: string; bytes: number; sha256: string }[] {
    return filesBelow(this.folder).map((path) => {
      const content = readFileSync(join(this.folder, path));
      return { path, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
    });
  }
}

/**
 * Packs a folder, or one part of it, into FILE.tar.xz, the same bytes for the same files. It takes one processor at the highest
 * level, at which all is one block of xz.
 * @throws by rejection without tar or xz
 */
export async function pack(
  folder: string,
  parts: readonly string[],
  file: string,
  level: string,
): Promise<void> {
  const same = [
    '--sort=name',
    '--mtime=@0',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+rw,go+r-w',
  ];
  const tar = [
    '--create',
    '--format=gnu',
    ...same,
    '--directory',
    folder,
    `--use-compress-program=xz -${level} -T2`,
  ];
  await promisify(execFile)('tar', [...tar, '--file', file, ...parts]);
}

/** Files below a folder, by their path in it, sorted. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => !lstatSync(join(folder, path)).isDirectory())
    .sort();
}
