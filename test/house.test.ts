// The source tree keeps the rules of `house/`, and each rule finds a planted fault.
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { SECONDS_FILE, suitesAreQuick } from './house/quick.js';
import { FACES, FOLDERS, isForeign } from './house/rooms.js';
import {
  everyFileSaysWhatItIs,
  everyFolderHasALine,
  facesOnly,
  filesAreShort,
  importsGoDown,
  noCircles,
  type Rule,
  tablesAreFresh,
  tripsExist,
} from './house/rules.js';
import { Tree } from './house/tree.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const tree = Tree.read(ROOT, FOLDERS, isForeign);

const RULES: readonly { rule: Rule; what: string; fault: string; broken: () => Tree; says: RegExp }[] = [
  {
    rule: importsGoDown,
    what: 'imports go down',
    fault: 'a room that imports one above it, for a type',
    broken: () => tree.with({ 'src/base/up.ts': "import type { Engine } from '../engine/engine.js';\n" }),
    says: /src\/base\/up\.ts imports src\/engine\/engine\.ts, which stands above it: /,
  },
  {
    rule: importsGoDown,
    what: 'imports go down',
    fault: 'a folder without a place in the order',
    broken: () => tree.with({ 'src/base/attic/thing.ts': '' }),
    says: /folder src\/base\/attic has no place in ROOMS/,
  },
  {
    rule: importsGoDown,
    what: 'imports go down',
    fault: 'a header that includes one above it',
    broken: () => tree.with({ 'native/core/base/up.h': '#include "host/core.h"\n' }),
    says: /native\/core\/base\/up\.h imports native\/host\/core\.h, which stands above it: /,
  },
  {
    rule: noCircles,
    what: 'no circles',
    fault: 'three files of one room that import each other, one of them by type',
    broken: () =>
      tree.with({
        'src/base/one.ts': "import './two.js';\n",
        'src/base/two.ts': "export { three } from './three.js';\n",
        'src/base/three.ts': "import type { One } from './one.js';\n",
      }),
    says: /^src\/base\/one\.ts, src\/base\/three\.ts, src\/base\/two\.ts import each other in a circle: /,
  },
  {
    rule: noCircles,
    what: 'no circles',
    fault: 'two headers that include each other',
    broken: () =>
      tree.with({ 'native/core/one.h': '#include "two.h"\n', 'native/core/two.h': '#include "one.h"\n' }),
    says: /^native\/core\/one\.h, native\/core\/two\.h import each other in a circle: /,
  },
  {
    rule: facesOnly,
    what: 'faces',
    fault: 'an import of what a room keeps to itself',
    broken: () =>
      tree.with({
        'src/engine/nosy.ts': "import { hidden } from '../scheduler/state/hidden.js';\n",
        'src/scheduler/state/hidden.ts': '',
      }),
    says: /src\/engine\/nosy\.ts imports src\/scheduler\/state\/hidden\.ts, which is no part of the face of scheduler: /,
  },
  {
    rule: facesOnly,
    what: 'faces',
    fault: 'a face that is gone',
    broken: () => tree.without(`src/scheduler/${FACES.scheduler[0]}`),
    says: /FACES names src\/scheduler\/.*, which does not exist: /,
  },
  {
    rule: everyFolderHasALine,
    what: 'lines of folders',
    fault: 'a folder without a line',
    broken: () => tree.with({ 'src/attic/thing.ts': '// A thing.\n' }),
    says: /^src\/attic has no line in src\/README\.md: /,
  },
  {
    rule: everyFileSaysWhatItIs,
    what: 'sentences of files',
    fault: 'a file that says nothing',
    broken: () => tree.with({ 'src/base/unsaid.ts': 'export const a = 1;\n' }),
    says: /^src\/base\/unsaid\.ts does not say what it is: /,
  },
  {
    rule: everyFileSaysWhatItIs,
    what: 'sentences of files',
    fault: 'a file whose first comment is about something else than its noun',
    broken: () => tree.with({ 'src/base/unsaid.ts': '/** Most of them. */\nconst MOST = 1;\n' }),
    says: /^src\/base\/unsaid\.ts does not say what it is: /,
  },
  {
    rule: tablesAreFresh,
    what: 'tables of READMEs',
    fault: 'a new file',
    broken: () => tree.with({ 'src/base/new.ts': '// A new noun.\n' }),
    says: /^src\/base\/README\.md has a table that is not what its files say: /,
  },
  {
    rule: tablesAreFresh,
    what: 'tables of READMEs',
    fault: 'a file that is gone',
    broken: () => tree.without('src/base/arrays.ts'),
    says: /^src\/base\/README\.md has a table that is not what its files say: /,
  },
  {
    rule: tablesAreFresh,
    what: 'tables of READMEs',
    fault: 'a file that says something else by now',
    broken: () =>
      tree.with({ 'src/base/arrays.ts': `// Something else.\n${tree.text('src/base/arrays.ts')}` }),
    says: /^src\/base\/README\.md has a table that is not what its files say: /,
  },
  {
    rule: filesAreShort,
    what: 'length of files',
    fault: 'a file of 501 lines',
    broken: () => tree.with({ 'native/core/long.h': '\n'.repeat(501) }),
    says: /^native\/core\/long\.h has 501 lines, at most 500 are allowed: /,
  },
  {
    rule: tripsExist,
    what: 'the five trips',
    fault: 'a trip to a function that is gone',
    broken: () => {
      const [, file, name] = /`([\w/.-]+\.ts)` \| `(\w+)` \|/.exec(tree.text('src/README.md'))!;
      return tree.with({ [`src/${file}`]: tree.text(`src/${file}`).replaceAll(name, 'renamed') });
    },
    says: /^src\/README\.md: .* has no function `\w+`: /,
  },
  {
    rule: tripsExist,
    what: 'the five trips',
    fault: 'a trip to a file that is gone',
    broken: () => {
      const [, file] = /`([\w/.-]+\.ts)` \| `(\w+)` \|/.exec(tree.text('src/README.md'))!;
      return tree.without(`src/${file}`);
    },
    says: /^src\/README\.md: .* there is no file src\/.*: /,
  },
  {
    rule: suitesAreQuick,
    what: 'seconds of suites',
    fault: 'a suite that takes long in npm test',
    broken: () => tree.with({ [SECONDS_FILE]: '{ "test/attic/slow.test.ts": 4.1 }' }),
    says: /^test\/attic\/slow\.test\.ts takes 4\.1 s in npm test, at most 4 are allowed: /,
  },
];

describe('the house', () => {
  const rules = [...new Map(RULES.map(({ rule, what }) => [rule, what]))];
  it.each(rules.map(([rule, what]) => ({ what, rule })))('keeps its rule: $what', ({ rule }) => {
    expect(rule(tree)).toEqual([]);
  });

  it.each(RULES)('notices $fault', ({ rule, broken, says }) => {
    const known = new Set(rule(tree));
    const found = rule(broken()).filter((message) => !known.has(message));
    expect(found).toContainEqual(expect.stringMatching(says));
  });
});
