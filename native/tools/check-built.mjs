// Before npm start: says what to run in a checkout that was not built.
import { existsSync } from 'node:fs';

const root = new URL('../../', import.meta.url);
const has = (path) => existsSync(new URL(path, root));

if (!has('node_modules/') || !has('dist/cli/main.js')) {
  console.error('blockstep is not built yet. Run: npm install');
  if (has('node_modules/')) console.error('(If that was done with --ignore-scripts: npm run prepare)');
  process.exit(1);
}
