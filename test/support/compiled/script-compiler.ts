// Compiles scripts and their imports, file by file; bundles the started scripts, which import in a
// fifth of the time.
import { cpSync, existsSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';

/** The files that the scripts read at run time beside their imports. */
const ASSETS = ['src/report/browser/page.js'];
/** The script of the server's page, which the build makes one file of; made where it is among the scripts. */
const PAGE_SCRIPT = 'src/serve/page/browser/main.ts';
const PACK_PAGE = 'src/serve/page/pack-page.mjs';

/**
 * Compiles scripts and everything that they import from this repository, file by file, into a folder that has the same
 * folders in it.
 * @param target the folder. The nearest package.json and node_modules above it must be those of this package
 * @param root folder of the sources
 * @param scripts paths below it; a missing path is left out, as in a copy of a part of the repository
 * @param edit changes the text of a source before it is compiled
 * @returns the paths of all sources that were compiled
 */
export async function compileInto(
  target: string,
  root: string,
  scripts: readonly string[],
  edit?: { readonly file: string; readonly text: string },
): Promise<string[]> {
  // The page's tsconfig extends the repository's, which a bundle for GPU hosts lacks; it has no use for the page.
  const isWhole = existsSync(join(root, 'tsconfig.json'));
  const present = scripts.filter(
    (path) => existsSync(join(root, path)) && (isWhole || !path.startsWith(dirname(PAGE_SCRIPT))),
  );
  const bundle = await rolldown({
    cwd: root,
    input: Object.fromEntries(present.map((path) => [path.replace(/\.ts$/, ''), join(root, path)])),
    platform: 'node',
    tsconfig: true,
    treeshake: false,
    transform: { target: 'es2022' },
    // Imports from another package stay imports; examples import this one by its name, which
    // tsconfig.json explains.
    external: (id) => !isAbsolute(id) && !/^(\.|\0|blockstep\b|@oxc-project\/runtime\/)/.test(id),
    plugins:
      edit === undefined
        ? []
        : [{ name: 'edit', load: (id: string) => (id === join(root, edit.file) ? edit.text : null) }],
  });
  try {
    const { output } = await bundle.write({
      dir: target,
      format: 'esm',
      preserveModules: true,
      preserveModulesRoot: root,
      sourcemap: true,
      entryFileNames: '[name].js',
      chunkFileNames: '[name].js',
    });
    const sources = output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
    const assets = ASSETS.filter((path) => existsSync(join(root, path)));
    for (const path of assets) cpSync(join(root, path), join(target, path), { recursive: true });
    const page = present.includes(PAGE_SCRIPT) ? await bundlePage(target, root) : [];
    const own = [...sources, ...page].filter((id) => id.startsWith(root)).map((id) => relative(root, id));
    return [...new Set(own), ...assets];
  } finally {
    await bundle.close();
  }
}

/**
 * Bundles compiled scripts with everything that they import. A process that imports the package then reads a few files instead of 250, and is
 * ready after a fifth of the processor time.
 * @param folder that `compileInto` has filled
 * @param together name of a folder in it, into which the bundles come, at the same places
 * @param starts scripts that are only started, and never imported: they are replaced by their bundles
 * @param faces scripts that programs import; each stays as it is beside its bundle
 */
export async function bundleTogether(
  folder: string,
  together: string,
  starts: readonly string[],
  faces: readonly string[],
): Promise<void> {
  const compiled = (path: string) => path.replace(/\.ts$/, '.js');
  const inputs = [...starts, ...faces].map(compiled).filter((path) => existsSync(join(folder, path)));
  const bundle = await rolldown({
    cwd: folder,
    input: Object.fromEntries(inputs.map((path) => [path.replace(/\.js$/, ''), join(folder, path)])),
    platform: 'node',
    treeshake: false,
    external: (id) => !isAbsolute(id) && !/^[.\0]/.test(id),
    plugins: [inPlace(folder, together)],
  });
  try {
    await bundle.write({
      dir: join(folder, together),
      format: 'esm',
      keepNames: true,
      entryFileNames: '[name].js',
      chunkFileNames: '[hash].js',
    });
  } finally {
    await bundle.close();
  }
  for (const path of starts.map(compiled).filter((path) => inputs.includes(path)))
    writeFileSync(join(folder, path), `import ${JSON.stringify(relativeUrl(path, join(together, path)))};\n`);
}

/**
 * Modules find the files beside them, and their own names, as if they were in the folder of the
 * output.
 */
function inPlace(folder: string, together: string): Plugin {
  const mark = '__placeOfModule__';
  return {
    name: 'in-place',
    transform: (code, id) =>
      code.replaceAll('import.meta.url', () => `${mark}(${JSON.stringify(relative(folder, id))})`),
    renderChunk: (code, { fileName }) =>
      code.replace(new RegExp(`${mark}\\("([^"]*)"\\)`, 'g'), (_, path: string) => {
        const from = relativeUrl(join(together, fileName), path);
        return `new URL(${JSON.stringify(from)}, import.meta.url).href`;
      }),
  };
}

/** The relative URL of a file for another one; both are paths below one folder. */
function relativeUrl(from: string, to: string): string {
  const path = relative(dirname(from), to);
  return path.startsWith('.') ? path : `./${path}`;
}

/** Makes the script of the page, as the build does. @returns the paths of the sources */
async function bundlePage(target: string, root: string): Promise<string[]> {
  const { packPage } = (await import(pathToFileURL(join(root, PACK_PAGE)).href)) as {
    packPage(file: string): Promise<string[]>;
  };
  return await packPage(join(target, 'src/serve/page/page-script.js'));
}
