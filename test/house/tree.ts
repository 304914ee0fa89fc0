import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import ts from 'typescript';

/**
 * The imports of each text, by the text: every rule asks for them, and trees with a planted fault
 * share all other texts.
 */
const specifiersOf = new Map<string, readonly string[]>();

/** The imports of a TypeScript text, of types too, as it names them. */
export function specifiers(text: string): readonly string[] {
  let found = specifiersOf.get(text);
  if (found === undefined) {
    found = ts.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName);
    specifiersOf.set(text, found);
  }
  return found;
}

/** The files that a C++ or CUDA text includes in quotes, as it names them. */
export function includes(text: string): readonly string[] {
  return [...text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)].map(([, name]) => name);
}

/** The files of a checkout as the rules of the house see them. Paths are relative to its root, with slashes. */
export class Tree {
  readonly #texts: ReadonlyMap<string, string>;

  /** @param texts path to text; of a file that is no text, an empty string */
  constructor(texts: ReadonlyMap<string, string>) {
    this.#texts = texts;
  }

  /** Reads some folders of a checkout. @param skips whether a path (a folder or a file) is none of the house's */
  static read(root: string, folders: readonly string[], skips: (path: string) => boolean): Tree {
    const texts = new Map<string, string>();
    const walk = (folder: string): void => {
      for (const name of readdirSync(join(root, folder))) {
        const path = `${folder}/${name}`;
        if (skips(path)) continue;
        if (statSync(join(root, path)).isDirectory()) walk(path);
        else texts.set(path, readFileSync(join(root, path), 'utf8'));
      }
    };
    for (const folder of folders) if (existsSync(join(root, folder))) walk(folder);
    return new Tree(texts);
  }

  /** The same tree with some files added or replaced. */
  with(texts: Readonly<Record<string, string>>): Tree {
    return new Tree(new Map([...this.#texts, ...Object.entries(texts)]));
  }

  /** The same tree without a file. */
  without(path: string): Tree {
    return new Tree(new Map([...this.#texts].filter(([each]) => each !== path)));
  }

  has(path: string): boolean {
    return this.#texts.has(path);
  }

  /** @throws Error if there is no such file */
  text(path: string): string {
    const text = this.#texts.get(path);
    if (text === undefined) throw new Error(`there is no file ${path}`);
    return text;
  }

  files(): string[] {
    return [...this.#texts.keys()].sort();
  }

  /** Every folder that holds a file or a folder. */
  folders(): string[] {
    const all = new Set<string>();
    for (const path of this.#texts.keys()) {
      for (let folder = posix.dirname(path); folder !== '.'; folder = posix.dirname(folder)) all.add(folder);
    }
    return [...all].sort();
  }

  /** Number of lines of a file. */
  lines(path: string): number {
    const text = this.text(path);
    return text === '' ? 0 : text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  }

  /** The files of the tree that a file imports (of types, too) or includes. */
  imports(path: string): string[] {
    if (path.endsWith('.ts')) return this.#importsOfModule(path);
    if (/\.(h|cc|cu|cuh)$/.test(path)) return this.#includes(path);
    return [];
  }

  #importsOfModule(path: string): string[] {
    const found = specifiers(this.text(path))
      .filter((name) => name.startsWith('.'))
      .map((name) => posix.join(dirname(path), name).replace(/\.js$/, '.ts'));
    return [...new Set(found)].filter((file) => this.has(file));
  }

  /** An include is found beside its file, or from the folder `native`. */
  #includes(path: string): string[] {
    const found = includes(this.text(path)).map((name) => [
      posix.join(dirname(path), name),
      posix.join('native', name),
    ]);
    return [...new Set(found.map((places) => places.find((place) => this.has(place)) ?? ''))].filter(Boolean);
  }
}
