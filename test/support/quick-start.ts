import { readFileSync } from 'node:fs';

/** The first program of the README, and its output in the README. */
export function quickStart(): { program: string; printed: string } {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  const from = readme.indexOf('## Quick start');
  const section = readme.slice(from, readme.indexOf('\n#', from));
  const program = section.match(/```js\n(.*?)```/s)?.[1] ?? '';
  const printed = [...section.slice(section.indexOf(program) + program.length).matchAll(/^ {4}(.*\n)/gm)];
  return { program, printed: printed.map(([, line]) => line).join('') };
}
