// A model in a file, served by the installed package: a missing package is named, and then a chat
// is answered.
import { equal, match } from 'node:assert/strict';
import { libraryPackage } from '../../src/executors/llama-cpp/native/packages.js';
import { LLAMA_VERSIONS } from '../../src/executors/llama-cpp/native/versions.js';
import { writeRandomModel } from '../support/gguf/random-model.js';
import type { Project } from './project.js';

const [{ packages }] = LLAMA_VERSIONS;
/** llama.cpp for this platform, as the command says that it is to be installed. */
export const LLAMA_PACKAGE = `${libraryPackage('auto')}@${packages}`;

const SERVE = `import { spawn } from 'node:child_process';
import { once } from 'node:events';

const args = ['serve', '--model', 'my-model.gguf', '--port', '0', '--threads', '1', '--memory', '1'];
const server = spawn(process.execPath, ['node_modules/blockstep/dist/cli/main.js', ...args]);
const exit = once(server, 'exit');
let said = '';
let failed = '';
server.stderr.setEncoding('utf8').on('data', (text) => (failed += text));
for await (const text of server.stdout.setEncoding('utf8')) {
  said += text;
  if (said.includes('Try:')) break;
}
if (!said.includes('Try:')) {
  console.log((await exit)[0], failed);
  process.exit();
}
const [url] = /http:\\S+/.exec(said);
const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello!' }];
const body = JSON.stringify({ messages, max_tokens: 12, stream: true, stream_options: { include_usage: true }, ignore_eos: true });
const response = await fetch(url + '/v1/chat/completions', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
const usage = /"completion_tokens":\\d+/.exec(await response.text())?.[0];
server.kill('SIGTERM');
console.log((await exit)[0], usage);
`;

/**
 * A conversation with a model in a file, by the command that the README names. @returns the output
 * of the program
 */
function converse(project: Project, node?: string): string {
  return project.run('node', ['serve-model.mjs'], node);
}

/** Without llama.cpp the command says what to install; with it, and nothing but it, a chat is answered. */
export function tryModel(project: Project, nodes: readonly (string | undefined)[] = [undefined]): void {
  writeRandomModel(`${project.folder}/my-model.gguf`);
  project.write('serve-model.mjs', SERVE);
  const missing = converse(project);
  match(missing, /^1 loading my-model.gguf .*\nERR_BLOCKSTEP_NO_PACKAGE: /);
  equal(/npm install (@\S+)/.exec(missing)?.[1].replaceAll("'", ''), LLAMA_PACKAGE, missing);
  project.run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', LLAMA_PACKAGE]);
  for (const node of nodes) equal(converse(project, node), '0 "completion_tokens":12\n');
}

/** An addon that was built again loads, and a chat is answered. llama.cpp is installed. */
export function tryBuiltModel(project: Project): void {
  equal(converse(project), '0 "completion_tokens":12\n');
}
