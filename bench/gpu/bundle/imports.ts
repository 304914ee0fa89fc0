// The files that a set of programs imports.
import { existsSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

/** The files and packages that a set of programs imports. */
export interface Reached {
  /** Files of the repository, sorted. */
  files: string[];
  /** Packages, sorted. */
  packages: string[];
}

/** Follows the imports of TypeScript files, types aside. Paths are relative to `root`. */
export function followImports(root: string, entries: Iterable<string>): Reached {
  const files = new Set<string>();
  const packages = new Set<string>();
  const visit = (file: string): void => {
    if (files.has(file)) return;
    files.add(file);
    for (const name of importsOf(join(root, file))) {
      if (name.startsWith('.')) {
        const target = sourceOf(join(root, dirname(file), name));
        if (target !== null) visit(relative(root, target));
      } else if (!name.startsWith('node:') && !builtinModules.includes(name)) {
        packages.add(name.split('/', name.startsWith('@') ? 2 : 1).join('/'));
      }
    }
  };
  for (const entry of entries) visit(entry);
  return { files: [...files].sort(), packages: [...packages].sort() };
}

/** The modules that a file imports once types are erased. */
function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  if (!/\.[cm]?[jt]s$/.test(file)) return [];
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.ES2022,
      verbatimModuleSyntax: true,
    },
  });
  return ts.preProcessFile(outputText, true, true).importedFiles.map(({ fileName }) => fileName);
}

/** The source of an import: TypeScript is imported by the name that it will have once compiled. */
function sourceOf(path: string): string | null {
  return [path.replace(/\.js$/, '.ts'), path].find((candidate) => existsSync(candidate)) ?? null;
}
