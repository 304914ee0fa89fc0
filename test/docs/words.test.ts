// Flags sentences of all pages that have to be read twice.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROOT, read } from './declarations.js';
import { clumsySentences } from './words.js';

const FOLDERS = ['.github', 'bench', 'docs', 'native', 'src', 'test'];
/** Made by a program, or by a build. */
const MADE = /^test\/docs\/api\/|\/(build[\w-]*|node_modules)\//;

/** Every page for people: users, and readers of the code. */
const PAGES = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { encoding: 'utf8', recursive: true }).map((name) => `${folder}/${name}`),
  ).filter((path) => path.endsWith('.md') && !MADE.test(path)),
];

it('knows the pages', () => {
  expect(PAGES).toEqual(
    expect.arrayContaining(['docs/serving.md', 'src/engine/README.md', 'test/guards/README.md']),
  );
  expect(PAGES.length).toBeGreaterThan(140);
});

it.each(PAGES)('%s has no sentence that has to be read twice', (path) => {
  expect(clumsySentences(read(path))).toEqual([]);
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
