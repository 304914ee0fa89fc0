// Flags sentences of all pages, and of the comments of all sources, that have to be read twice.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commentPage } from './comments.js';
import { ROOT, read } from './declarations.js';
import { clumsySentences } from './words.js';

const FOLDERS = ['.github', 'bench', 'docs', 'examples', 'native', 'src', 'test'];
/** Made by a program, or by a build. */
const MADE = /^test\/docs\/api\/|\/(build[\w-]*|node_modules)\//;
const FILES = FOLDERS.flatMap((folder) =>
  readdirSync(join(ROOT, folder), { encoding: 'utf8', recursive: true }).map((name) => `${folder}/${name}`),
).filter((path) => !MADE.test(path));

/** Every page for people: users, and readers of the code. */
const PAGES = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  ...FILES.filter((path) => path.endsWith('.md')),
];
const SOURCES = FILES.filter((path) => /\.(?:[cm]?[jt]s|cc?|cuh?|h|py|sh|cmake|yml)$/.test(path));

it('knows the pages', () => {
  expect(PAGES).toEqual(
    expect.arrayContaining(['docs/serving.md', 'src/engine/README.md', 'test/guards/README.md']),
  );
  expect(PAGES.length).toBeGreaterThan(140);
  expect(SOURCES.length).toBeGreaterThan(2000);
});

it.each(PAGES)('%s has no sentence that has to be read twice', (path) => {
  expect(clumsySentences(read(path))).toEqual([]);
});

it.each(['bench', 'examples', 'native', 'src', 'test'])('%s has no such sentence in a comment', (folder) => {
  const flags = SOURCES.filter((path) => path.startsWith(`${folder}/`)).flatMap((path) =>
    clumsySentences(commentPage(path, read(path))).map((flag) => ({ path, ...flag })),
  );
  expect(flags).toEqual([]);
});

it.each([
  'What was chosen is printed.',
  'A store that has lost one block may have lost them all: whoever computes them stores them again.',
  'Fewer tokens let those who read wait less.',
  'A call is sent when it is whole: one that is cut off is text.',
  'Both are chosen to suit the model and the machine, and said.',
  'A reset changes that not.',
  'Give it a model of yours.',
  '| `a` | what the model was trained for |',
  `- **Long**: ${'word '.repeat(40)}end.`,
])('flags %s', (text) => {
  expect(
    clumsySentences(`# A page\n\nA sentence.\n${text.startsWith('|') ? text : `\n${text}`}\n`),
  ).toHaveLength(1);
});

it('leaves questions, short sentences, code, headings and generated parts alone', () => {
  const page = `# What was chosen is printed\n
What costs a step? The message says what was expected, and what to do. ${'Three short words. '.repeat(20)}\n
${'`a`, '.repeat(50)}\`b\` and \`c\` are options.\n
\`\`\`sh\nwhoever runs this\n\`\`\`\n
<!-- made by npm run x -->\n\nWhat was measured is here.\n\n<!-- end of what npm run x made -->\n`;
  expect(clumsySentences(page)).toEqual([]);
});

const LONG = `${'word '.repeat(15).trim()}`;

it.each([
  ['a.ts', `/** ${LONG} ${LONG}. */`],
  ['a.ts', `/**\n * ${LONG}\n * ${LONG}.\n */`],
  ['a.cu', `  // A sentence.\n  // ${LONG}\n  // ${LONG}\n  f();`],
  ['a.h', `/// @param x ${LONG} ${LONG}`],
  ['a.py', `# ${LONG}\n# ${LONG}`],
])('flags a comment of %s: %s', (path, text) => {
  expect(clumsySentences(commentPage(path, text))).toHaveLength(1);
});

it.each([
  ['a.ts', `// ${LONG}\n\n// ${LONG}`],
  ['a.ts', `/**\n * ${LONG}.\n * ${LONG}\n * @returns ${LONG}\n * - ${LONG}\n */`],
  ['a.ts', `const text = '${LONG} ${LONG}';`],
  ['a.cc', `// kOpen   row   ${LONG} ${LONG}`],
  ['a.cc', `#include "${LONG} ${LONG}"`],
])('leaves a comment of %s alone: %s', (path, text) => {
  expect(clumsySentences(commentPage(path, text))).toEqual([]);
});
