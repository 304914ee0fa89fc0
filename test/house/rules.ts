// The rules; each returns a message per fault, which says what to do.
import { posix } from 'node:path';
import { circles } from './circles.js';
import { FACES, FOLDERS, isData, MOST_LINES, NATIVE_ROOMS, ROOMS, UNLIMITED } from './rooms.js';
import { freshTables, isListed, saidOf } from './tables.js';
import type { Tree } from './tree.js';

/** The faults of a tree by one rule: a message for each, with its remedy. */
export type Rule = (tree: Tree) => string[];

/** The room of a file of `src`: its folder, below `src`. */
function roomOf(path: string): string {
  const folder = posix.dirname(path);
  return folder === 'src' ? '' : folder.slice('src/'.length);
}

function modules(tree: Tree, folder: string): string[] {
  return tree.files().filter((path) => path.startsWith(`${folder}/`) && path.endsWith('.ts'));
}

/** Every import in `src`, of types too, and every include in `native` stays in its room or goes to a lower one. */
export const importsGoDown: Rule = (tree) => {
  const native = sources(tree).filter((path) => !path.startsWith('native/test/'));
  return [
    ...upwards(tree, modules(tree, 'src'), 'src', ROOMS, 'ROOMS'),
    ...upwards(tree, native, 'native', NATIVE_ROOMS, 'NATIVE_ROOMS'),
  ];
};

function upwards(
  tree: Tree,
  files: readonly string[],
  root: string,
  order: readonly string[],
  list: string,
): string[] {
  const faults: string[] = [];
  const placeOf = (path: string) => order.indexOf(posix.relative(root, posix.dirname(path)));
  for (const path of files) {
    const from = placeOf(path);
    if (from < 0) {
      const folder = posix.dirname(path);
      faults.push(`${path}: folder ${folder} has no place in ${list} (test/house/rooms.ts): give it one`);
      continue;
    }
    for (const target of tree.imports(path)) {
      if (placeOf(target) <= from) continue;
      const what = `${path} imports ${target}, which stands above it`;
      faults.push(`${what}: move what both need to a room below both, or hand it in as an argument`);
    }
  }
  return faults;
}

/** No file imports itself by way of others, by types neither. */
export const noCircles: Rule = (tree) => {
  const found = ['src', 'bench', 'test'].flatMap((folder) => circles(tree, modules(tree, folder)));
  return [...found, ...circles(tree, sources(tree))].map(
    (group) => `${group.join(', ')} import each other in a circle: move what they share to a file of its own`,
  );
};

function sources(tree: Tree): string[] {
  return tree.files().filter((path) => /^native\/.*\.(h|cc|cu|cuh)$/.test(path));
}

/** From outside of a large room only its face is imported. */
export const facesOnly: Rule = (tree) => {
  const faults: string[] = [];
  const houseOf = (path: string) => roomOf(path).split('/')[0];
  for (const path of modules(tree, 'src')) {
    // The entry points of the package publish what they like.
    if (roomOf(path) === '') continue;
    for (const target of tree.imports(path)) {
      const house = houseOf(target);
      if (!target.startsWith('src/') || house === houseOf(path) || !(house in FACES)) continue;
      if (FACES[house].includes(target.slice(`src/${house}/`.length))) continue;
      const what = `${path} imports ${target}, which is no part of the face of ${house}`;
      faults.push(
        `${what}: use what the face offers, or add the file to FACES (test/house/rooms.ts) if it is a noun`,
      );
    }
  }
  for (const [house, files] of Object.entries(FACES)) {
    for (const file of files) {
      if (!tree.has(`src/${house}/${file}`))
        faults.push(`FACES names src/${house}/${file}, which does not exist: drop it`);
    }
  }
  return faults;
};

/** Every folder has its line in the nearest README above it. */
export const everyFolderHasALine: Rule = (tree) => {
  const faults: string[] = [];
  for (const path of tree.folders()) {
    if (FOLDERS.includes(path) || path.includes('/fixtures')) continue;
    const from = posix.dirname(path);
    const readme = nearestReadme(tree, from);
    if (readme === null) {
      faults.push(`${path} has no README.md above it: write ${from}/README.md`);
      continue;
    }
    const home = posix.dirname(readme);
    const inside = `${posix.relative(home, path)}/`;
    const section = sectionOf(tree.text(readme), posix.relative(home, from));
    const text = section ?? tree.text(readme);
    const name = `${posix.basename(path)}/`;
    const isNamed =
      text.includes(`\`${inside}`) || ((section !== null || from === home) && text.includes(`\`${name}`));
    if (isNamed || sectionOf(tree.text(readme), inside.slice(0, -1)) !== null) continue;
    faults.push(
      `${path} has no line in ${readme}: say there in a line what \`${section === null ? inside : name}\` is for`,
    );
  }
  return faults;
};

/** Every file says what it is, for readers and for the tables of READMEs. */
export const everyFileSaysWhatItIs: Rule = (tree) =>
  tree
    .files()
    .filter((path) => isListed(path) && saidOf(tree, path) === null)
    .map((path) => `${path} does not say what it is: begin it with a comment of one sentence`);

/** The tables of files in READMEs have what the files say. */
export const tablesAreFresh: Rule = (tree) =>
  tree
    .files()
    .filter((path) => path.endsWith('/README.md') && freshTables(tree, path) !== tree.text(path))
    .map((path) => `${path} has a table that is not what its files say: npm run readmes`);

/** The part of a README about a folder below it, under the heading `## folder/`; null if it has none. */
function sectionOf(readme: string, folder: string): string | null {
  const [, section] = folder === '' ? [] : readme.split(new RegExp(`^##+ \`?${folder}/\`?.*$`, 'm'));
  return section?.split(/^##? /m)[0] ?? null;
}

function nearestReadme(tree: Tree, from: string): string | null {
  for (let folder = from; folder !== '.'; folder = posix.dirname(folder)) {
    if (tree.has(`${folder}/README.md`)) return `${folder}/README.md`;
  }
  return null;
}

/** A file is no longer than one can read. */
export const filesAreShort: Rule = (tree) => {
  return tree.files().flatMap((path) => {
    const count = tree.lines(path);
    if (isData(path) || count <= MOST_LINES || UNLIMITED.some((each) => path.startsWith(`${each}/`)))
      return [];
    return [
      `${path} has ${count} lines, at most ${MOST_LINES} are allowed: it holds more than one noun, move one out`,
    ];
  });
};

/**
 * The table "Five trips" in src/README.md names a file and a function for each trip: `| what | file | function |`. Both exist.
 */
export const tripsExist: Rule = (tree) => {
  const rows = [...tree.text('src/README.md').matchAll(/^\| ([^|]+) \| `([\w/.-]+\.ts)` \| `(\w+)` \|/gm)];
  if (rows.length < 5)
    return [`src/README.md names ${rows.length} trips, 5 are expected: | what | \`file.ts\` | \`name\` |`];
  return rows.flatMap(([, what, file, name]) => {
    if (!tree.has(`src/${file}`))
      return [`src/README.md: ${what}: there is no file src/${file}: name the one it moved to`];
    const declares = new RegExp(
      `^(export )?(async )?(function\\*?|class|const) ${name}\\b|^  (#|async |static )*${name}\\(`,
      'm',
    );
    if (declares.test(tree.text(`src/${file}`))) return [];
    return [`src/README.md: ${what}: src/${file} has no function \`${name}\`: name the one that does it now`];
  });
};
