// `npm run readmes`: makes the tables of files in READMEs.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FOLDERS, isForeign } from './rooms.js';
import { freshTables } from './tables.js';
import { Tree } from './tree.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const tree = Tree.read(ROOT, FOLDERS, isForeign);
for (const path of tree.files().filter((each) => each.endsWith('/README.md'))) {
  const fresh = freshTables(tree, path);
  if (fresh === tree.text(path)) continue;
  writeFileSync(join(ROOT, path), fresh);
  process.stdout.write(`${path}\n`);
}
