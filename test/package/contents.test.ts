// The files of `npm pack`: all files that run, no more; its dependencies, links and declarations.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const manifest = JSON.parse(read('package.json')) as {
  dependencies: Record<string, string>;
  repository: { url: string };
  keywords: string[];
  scripts: Record<string, string>;
  bugs: { url: string };
  exports: Record<string, { types?: string }>;
};

/** Paths of the files that `npm pack` takes, from the root. */
const packed = (
  JSON.parse(
    execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  ) as [{ files: { path: string }[] }]
)[0].files.map(({ path }) => path);

/** Modules that the text names in imports, exports and `require`. */
function imported(text: string): string[] {
  return [
    ...text.matchAll(
      /^(?:import|export)\b[^'";]*?from\s*'([^']+)'|^import\s*'([^']+)'|\b(?:import|createRequire\(import\.meta\.url\))\('([^']+)'\)/gm,
    ),
  ].map(([, from, bare, later]) => from ?? bare ?? later);
}

describe('the package', () => {
  it('holds what it runs, and no maps, tests, caches or scripts of the build', () => {
    for (const needed of [
      'dist/index.js',
      'dist/index.d.ts',
      'dist/cli/main.js',
      'dist/report/plot-library.json',
    ])
      expect(packed).toContain(needed);
    const FOREIGN = /\.map$|^dist\/.*\.m[jt]s$|^(src|test|bench|node_modules|native\/build)/;
    expect(packed.filter((path) => FOREIGN.test(path))).toEqual([]);
  });

  it('holds no module whose source is gone', () => {
    // The script of the server's page is made of a folder of sources.
    const made = 'dist/serve/page/page-script.js';
    expect(packed).toContain(made);
    const modules = packed.filter(
      (path) => path.startsWith('dist/') && path.endsWith('.js') && path !== made,
    );
    expect(modules.length).toBeGreaterThan(100);
    const sources = (path: string) =>
      [path.replace(/\.js$/, '.ts'), path].map((file) => file.replace('dist', 'src'));
    expect(modules.filter((path) => !sources(path).some((file) => existsSync(join(ROOT, file))))).toEqual([]);
  });

  it('depends on every package that it imports, and on the headers that a build needs', () => {
    const names = new Set<string>(['node-addon-api', 'node-api-headers']);
    for (const path of packed.filter((file) => file.startsWith('dist/') && file.endsWith('.js'))) {
      for (const module of imported(read(path))) {
        const bare = module.startsWith('@') ? module.split('/', 2).join('/') : module.split('/')[0];
        if (!bare.startsWith('.') && !bare.startsWith('node:') && !builtinModules.includes(bare))
          names.add(bare);
      }
    }
    expect([...names].sort()).toEqual(Object.keys(manifest.dependencies).sort());
  });

  it('holds every file that the build of the addon names', () => {
    const gyp = JSON.parse(read('native/gyp/binding.gyp')) as { targets: [{ sources: string[] }] };
    const folders = ['addon', 'base', 'core', 'cuda', 'host', 'include', 'reference', 'tools', 'transfer'];
    const files = folders.flatMap((folder) =>
      readdirSync(join(ROOT, 'native', folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => /\.\w+$/.test(name))
        .map((name) => `native/${folder}/${name}`),
    );
    for (const file of [
      ...gyp.targets[0].sources.map((path) => normalize(join('native/gyp', path))),
      'native/CMakeLists.txt',
      ...files,
    ])
      expect(packed).toContain(file);
  });

  it('has nothing at its root that npm takes for an install script in place of ours', () => {
    expect(manifest.scripts['install']).toBe('node native/tools/install.mjs');
    expect(packed).not.toContain('binding.gyp');
  });

  it('has no dead link in its papers', () => {
    const dead = packed
      .filter((path) => path.endsWith('.md'))
      .flatMap((path) =>
        [...read(path).matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
          .map(([, target]) => target)
          .filter((target) => !/^[a-z]+:/.test(target))
          .map((target) => normalize(join(dirname(path), target)))
          .filter((target) => !packed.some((file) => file === target || file.startsWith(`${target}/`)))
          .map((target) => `${path}: ${target}`),
      );
    expect(dead).toEqual([]);
  });

  it('has no script that npm runs before or after another one but those that are meant', () => {
    const names = Object.keys(manifest.scripts);
    const hooks = names.filter(
      (name) => names.includes(name.replace(/^(pre|post)/, '')) && /^(pre|post)/.test(name),
    );
    expect(hooks).toEqual(['prestart']);
  });

  it('says where it comes from', () => {
    expect(manifest.repository.url).toMatch(/^git\+https:/);
    expect(manifest.bugs.url).toMatch(/^https:/);
    expect(manifest.keywords.length).toBeGreaterThan(3);
  });

  it('has declarations that older compilers can read', () => {
    // Arrays have a type parameter since TypeScript 5.7, and iterators three since 5.6.
    const NEW = /\b(Uint8|Int32|Uint32|Float64|BigInt64|BigUint64)Array<|IterableIterator<[^<>]*,/;
    const generic = packed.filter((path) => path.endsWith('.d.ts') && NEW.test(read(path)));
    expect(generic).toEqual([]);
    expect(read('dist/index.d.ts')).toMatch(/^\/\/\/ <reference types="node"/);
  });

  it('has declarations that need no package which its users may not have', () => {
    const seen = new Set<string>();
    const foreign: string[] = [];
    const follow = (path: string): void => {
      if (seen.has(path)) return;
      seen.add(path);
      // Comments may name whatever they like.
      const text = read(path).replaceAll(/\/\*[\s\S]*?\*\//g, '');
      for (const [, name] of text.matchAll(/(?:from|import\()\s*'([^']+)'/g)) {
        if (name.startsWith('.')) follow(join(dirname(path), name.replace(/\.js$/, '.d.ts')));
        else if (!name.startsWith('node:')) foreign.push(`${path}: ${name}`);
      }
    };
    for (const { types } of Object.values(manifest.exports))
      if (types !== undefined) follow(normalize(types));
    expect(seen.size).toBeGreaterThan(100);
    expect(foreign).toEqual([]);
  });
});
