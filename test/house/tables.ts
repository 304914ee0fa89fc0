// The tables of files in READMEs, made of the first comments of the files.
import { posix } from 'node:path';
import { isData } from './rooms.js';
import type { Tree } from './tree.js';

/** A sentence of more words ends in a table where its first part does. */
const MOST_WORDS = 25;

/** A comment on the first line of a file: its text, and the text behind it. */
const FIRST = /^(?:\/\*\*?(.*?)\*\/|((?:\/\/[^\n]*\n)+)|((?:# [^\n]*\n)+)|"""(.*?)""")(.*)/s;

/**
 * The sentence of a file about itself. This is the first sentence of the comment on its first line,
 * or of the doc comment of the declaration that has the file's name. Null: it says nothing.
 */
export function sentenceOf(path: string, text: string): string | null {
  const code = text.replace(/^#!.*\n/, '').trimStart();
  const name = posix.basename(path).replace(/\..*$/, '').replaceAll('-', '');
  const declares = `(?:export |default |declare |abstract |async )*(?:class|function\\*?|const|interface|type) (?=\\w)`;
  const first = FIRST.exec(code);
  // A doc comment on the first line may be that of the first declaration, which is about something else.
  const isOfOther =
    first?.[1] !== undefined &&
    new RegExp(`^\\n${declares}`).test(first[5]) &&
    !new RegExp(`^\\n${declares}${name}\\b`, 'i').test(first[5]);
  const named = new RegExp(`^/\\*\\*((?:(?!\\*/).)*?)\\*/\\n${declares}${name}\\b`, 'ims');
  const found = first === null || isOfOther ? named.exec(code) : first;
  if (found === null) return null;
  const words = found.slice(1, 5).find((each) => each !== undefined)!;
  const [paragraph] = words
    .replaceAll(/^[ \t]*(?:\/\/\/?|\*|#)?[ \t]?/gm, '')
    .trim()
    .split(/\n\s*\n|\s@[a-z]+/);
  const line = paragraph.replaceAll(/\s+/g, ' ').replaceAll(/\{@link (\w+)\}/g, '`$1`');
  const [sentence] = line.split(/(?<=\.)\s+(?=[A-Z`([]|[a-z]+\/)/);
  const isLong = sentence.split(' ').length > MOST_WORDS;
  return (isLong ? sentence.replace(/[:;] .*/, '') : sentence).replace(/[.:]$/, '') || null;
}

/** A table row about files: the names, and everything behind them. */
const ROW = /^\|([^|]*`[\w./-]+`[^|]*)\|(.*)\|\s*$/;

/** Whether a README's table may list a file: the file must be able to carry a comment. */
export function isListed(path: string): boolean {
  return !isData(path) && !/\.(gz|txt|png|gguf|gyp)$/.test(path);
}

/** The header and the implementation of one noun share a row, under the name of the header. */
function partners(tree: Tree, path: string): string[] {
  const stem = path.replace(/\.\w+$/, '');
  const all = path.startsWith('native/')
    ? ['.h', '.cuh', '.cc', '.cu'].map((end) => `${stem}${end}`)
    : [path];
  const found = all.filter((each) => tree.has(each));
  return found.length > 0 && found.includes(path) ? found : [path];
}

/** The sentence of a file, or of the file that shares its row; null: neither has one. */
export function saidOf(tree: Tree, path: string): string | null {
  const said = partners(tree, path).map((each) => sentenceOf(each, tree.text(each)));
  return said.find((each) => each !== null) ?? null;
}

function rowOf(tree: Tree, path: string, folder: string): string {
  const names = partners(tree, path).map((each) => `\`${posix.relative(folder, each)}\``);
  return `| ${names.join(', ')} | ${(saidOf(tree, path) ?? '').replaceAll('|', '\\|')} |`;
}

/**
 * The tables of a README: rows of files are made of the files' first comments, in the order that
 * the README has; other rows stay.
 */
export function freshTables(tree: Tree, readme: string): string {
  const home = posix.dirname(readme);
  const lines = tree.text(readme).split('\n');
  const out: string[] = [];
  /** The folder that the lines are about. */
  let folder = home;
  const listed = new Set<string>();
  /** By folder of listed files: the line where its further files go, and the folder that their names start from. */
  const ends = new Map<string, { at: number; scope: string }>();
  let isTable = false;
  for (const [i, line] of lines.entries()) {
    const heading = /^##+ (?:`?([\w./-]+)\/`?.*)?/.exec(line);
    if (heading !== null) folder = heading[1] === undefined ? home : posix.join(home, heading[1]);
    if (/^\| *-/.test(line)) isTable = /^\|[^|]*\| *(?:what|noun|subject)[^|]*\|\s*$/.test(lines[i - 1]);
    else if (!line.startsWith('|')) isTable = false;
    const row = isTable ? ROW.exec(line) : null;
    if (row === null) {
      out.push(line);
      continue;
    }
    const own = /in `([\w/-]+)\/`/.exec(
      lines.slice(0, i).findLast((each) => /^\| (file|folder|room)/.test(each)) ?? '',
    );
    const scope = own === null ? folder : posix.join(home, own[1]);
    const names = [...row[1].matchAll(/`([\w./-]+)`/g)].map(([, name]) => {
      const inside = posix.join(scope, name);
      return tree.has(inside) || !tree.has(posix.join(home, name)) ? inside : posix.join(home, name);
    });
    const files = names.filter((name) => tree.has(name) && isListed(name));
    const isOfFiles = names.every((name) => /\.\w+$/.test(name) && !name.endsWith('/'));
    if (!isOfFiles || names.some((name) => tree.has(name) && !isListed(name))) out.push(line);
    else
      for (const file of files) {
        if (listed.has(file)) continue;
        for (const each of partners(tree, file)) listed.add(each);
        out.push(rowOf(tree, file, scope));
      }
    if (!isOfFiles) continue;
    for (const name of names) ends.set(posix.dirname(name), { at: out.length, scope });
  }
  for (const [inside, { at, scope }] of [...ends].sort(([, a], [, b]) => b.at - a.at)) {
    if (inside !== home && tree.has(`${inside}/README.md`)) continue;
    const further = tree
      .files()
      .filter((path) => posix.dirname(path) === inside && isListed(path) && !listed.has(path));
    const rows: string[] = [];
    for (const path of further) {
      if (listed.has(path)) continue;
      for (const each of partners(tree, path)) listed.add(each);
      rows.push(rowOf(tree, path, scope));
    }
    out.splice(at, 0, ...rows);
  }
  return out.join('\n');
}
