import { expect, it } from 'vitest';
import { read } from './declarations.js';
import { clumsySentences } from './words.js';

/** The pages that were gone through by a reader who did not write them. A page that has been stays on this list. */
const CLEAN = [
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'README.md',
  'docs/README.md',
  'docs/benchmarks.md',
  'docs/coming-from.md',
  'docs/connector-contract.md',
  'docs/connectors.md',
  'docs/engine.md',
  'docs/errors.md',
  'docs/executors.md',
  'docs/glossary.md',
  'docs/gpu.md',
  'docs/guarantees.md',
  'docs/internals/decisions.md',
  'docs/internals/gpu-findings.md',
  'docs/internals/pipeline-matrix.md',
  'docs/internals/tour.md',
  'docs/kv-events.md',
  'docs/kv-groups.md',
  'docs/llama-cpp.md',
  'docs/metrics.md',
  'docs/operating.md',
  'docs/pipelines.md',
  'docs/planning.md',
  'docs/replay.md',
  'docs/scheduler.md',
  'docs/serving.md',
  'docs/vllm-versions.md',
  'docs/writing-connectors.md',
  'native/README.md',
  'native/addon/README.md',
  'native/addon/objects/README.md',
  'native/base/README.md',
  'native/core/README.md',
  'native/core/audit/README.md',
  'native/core/base/README.md',
  'native/core/blocks/README.md',
  'native/core/decide/README.md',
  'native/cuda/README.md',
  'native/cuda/base/README.md',
  'native/cuda/device/README.md',
  'native/cuda/kernels/README.md',
  'native/cuda/lane/README.md',
  'native/cuda/memory/README.md',
  'native/cuda/reference/README.md',
  'native/host/README.md',
  'native/host/base/README.md',
  'native/host/decided/README.md',
  'native/host/device/README.md',
  'native/host/gather/README.md',
  'native/host/groups/README.md',
  'native/host/log/README.md',
  'native/host/mirror/README.md',
  'native/host/requests/README.md',
  'native/host/step/README.md',
  'native/llama/README.md',
  'native/llama/api/README.md',
  'native/llama/attention/README.md',
  'native/llama/embed/README.md',
  'native/llama/objects/README.md',
  'native/reference/README.md',
  'native/reference/memory/README.md',
  'native/tools/README.md',
  'native/transfer/README.md',
  'native/transfer/lane/README.md',
  'src/README.md',
  'src/base/README.md',
  'src/cli/README.md',
  'src/connectors/README.md',
  'src/connectors/base/README.md',
  'src/connectors/lease/README.md',
  'src/connectors/multi/README.md',
  'src/connectors/offload/README.md',
  'src/connectors/store/README.md',
  'src/core/README.md',
  'src/executors/README.md',
  'src/executors/llama-cpp/README.md',
  'src/kv-events/README.md',
  'src/pipeline/README.md',
  'src/planner/README.md',
  'src/report/README.md',
  'src/serve/README.md',
  'src/serve/answers/README.md',
  'src/serve/jinja/README.md',
  'src/serve/page/README.md',
  'src/serve/text/README.md',
  'src/testing/README.md',
  'src/transfer/README.md',
  'src/workload/README.md',
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
