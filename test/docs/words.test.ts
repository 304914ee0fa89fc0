import { expect, it } from 'vitest';
import { read } from './declarations.js';
import { clumsySentences } from './words.js';

/** The pages that were gone through by a reader who did not write them. A page that has been stays on this list. */
const CLEAN = [
  'README.md',
  'docs/borrowing.md',
  'docs/coming-from.md',
  'docs/errors.md',
  'docs/executors.md',
  'docs/glossary.md',
  'docs/internals/decisions.md',
  'docs/internals/tour.md',
  'docs/connector-contract.md',
  'docs/connectors.md',
  'docs/kv-events.md',
  'docs/kv-groups.md',
  'docs/vllm-versions.md',
  'docs/gpu.md',
  'docs/guarantees.md',
  'docs/llama-cpp.md',
  'docs/metrics.md',
  'docs/operating.md',
  'docs/pipelines.md',
  'docs/planning.md',
  'docs/replay.md',
  'docs/scheduler.md',
  'docs/serving.md',
  'docs/writing-connectors.md',
  'native/README.md',
  'src/README.md',
];

it.each(CLEAN)('%s has no sentence that has to be read twice', (path) => {
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
