// The input files of a proof, by its imports, and a hash over them.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { includes, specifiers } from '../house/tree.js';
import { entryPoints } from '../support/entry-points.js';
import type { Proof } from './proofs.js';

/** Files that every proof is made of: the tools that compile, run and resolve the suites. */
const ALL = [
  'package-lock.json',
  'tsconfig.json',
  'test/vitest.config.ts',
  'test/support/entry-points.ts',
  'test/support/compiled/',
];

/** The files of a checkout: those of git, and new ones that it does not ignore. */
export class Checkout {
  readonly #files: ReadonlySet<string>;
  readonly #read: (path: string) => Buffer;
  /** Sources that are imported as users name them. */
  readonly #entries: ReadonlyMap<string, string>;
  readonly #imports = new Map<string, readonly string[]>();
  readonly #hashes = new Map<string, string>();

  /** @param read gives the content of a file */
  constructor(files: Iterable<string>, read: (path: string) => Buffer) {
    this.#files = new Set(files);
    this.#read = read;
    this.#entries = entryPoints(read('package.json').toString('utf8'));
  }

  static of(root: string): Checkout {
    const list = (...args: string[]): string[] =>
      execFileSync('git', ['ls-files', '-z', ...args], { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 })
        .split('\0')
        .filter(Boolean);
    const gone = new Set(list('--deleted'));
    const files = list('--cached', '--others', '--exclude-standard').filter((path) => !gone.has(path));
    return new Checkout(files, (path) => readFileSync(join(root, path)));
  }

  /** The same checkout with another text in one file. */
  with(path: string, text: Buffer): Checkout {
    return new Checkout(this.#files, (each) => (each === path ? text : this.#read(each)));
  }

  /** The files at some places: files, or folders with a slash at their end. */
  at(places: readonly string[]): string[] {
    const all = [...this.#files];
    return places.flatMap((place) => {
      const found = place.endsWith('/')
        ? all.filter((path) => path.startsWith(place))
        : all.filter((path) => path === place);
      if (found.length === 0) throw new Error(`nothing is at ${place}, which a proof names`);
      return found;
    });
  }

  /** The content of a file, hashed. */
  hash(path: string): string {
    let hash = this.#hashes.get(path);
    if (hash === undefined) {
      hash = createHash('sha256').update(this.#read(path)).digest('hex');
      this.#hashes.set(path, hash);
    }
    return hash;
  }

  /** The files of the checkout that a TypeScript file imports, types too, or that a C++ or CUDA file includes. */
  imports(path: string): readonly string[] {
    let found = this.#imports.get(path);
    if (found === undefined) {
      found = this.#named(path).filter((each) => each !== null);
      this.#imports.set(path, found);
    }
    return found;
  }

  #named(path: string): readonly (string | null)[] {
    const text = () => this.#read(path).toString('utf8');
    if (/\.[cm]?ts$/.test(path)) return specifiers(text()).map((name) => this.#resolve(path, name));
    if (!/\.(c|cc|h|cu|cuh)$/.test(path)) return [];
    return includes(text()).map((name) => this.#found(posix.join(dirname(path), name)));
  }

  #resolve(from: string, name: string): string | null {
    if (!name.startsWith('.')) return this.#entries.get(name) ?? null;
    const path = posix.join(dirname(from), name);
    return this.#found(path.replace(/\.js$/, '.ts')) ?? this.#found(path);
  }

  #found(path: string): string | null {
    return this.#files.has(path) ? path : null;
  }
}

/**
 * The files that a proof is made of, sorted: its suites, its further inputs, and all files that
 * these import or include.
 */
export function inputsOf({ suites, beside }: Proof, checkout: Checkout): string[] {
  // Helpers beside a suite are started by it, or read.
  const rooms = suites.map((place) => (place.endsWith('/') ? place : `${dirname(place)}/`));
  const found = new Set<string>();
  const open = checkout.at([
    ...ALL,
    ...beside,
    ...suites,
    ...rooms.filter((room) => room.split('/').length > 3),
  ]);
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (found.has(path)) continue;
    found.add(path);
    open.push(...checkout.imports(path));
  }
  // The description of a proof does not change its inputs.
  return [...found].filter((path) => !path.endsWith('.md')).sort();
}

/** One hash over all inputs of a proof, and the tools that run it. */
export function hashOf(proof: Proof, checkout: Checkout, tools: readonly string[]): string {
  const hash = createHash('sha256').update(tools.join('\n'));
  for (const path of inputsOf(proof, checkout)) hash.update(`\n${path} ${checkout.hash(path)}`);
  return hash.digest('hex').slice(0, 32);
}

/** The tools of this machine whose version matters: Node by its major version, the compiler of C++ by its whole one. */
export function toolsHere(): string[] {
  const compiler = process.env['CXX'] ?? 'c++';
  let version = 'none';
  try {
    version = execFileSync(compiler, ['-dumpfullversion', '-dumpmachine'], { encoding: 'utf8' }).trim();
  } catch {
    // Where none is, the addon came with the package.
  }
  return [`node ${process.versions.node.split('.')[0]}`, `${compiler} ${version}`];
}
