import { badArg } from '../../../base/checks.js';

/** What a model's files begin with where they lie on a hub: `hf:OWNER/NAME[:WHICH]`. */
const PREFIX = 'hf:';

/** A model on a hub. */
export interface HubName {
  readonly owner: string;
  readonly name: string;
  /** Which of its files: how its weights are quantized (`Q4_K_M`), or the path of a file. Null: not said. */
  readonly which: string | null;
}

/** As the hub names owners and models: they become folders here. */
const PART = /^[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,95}$/;
/** Most bytes of a file's name, as file systems have it; ours have an ending more. */
const LONGEST_NAME = 200;
/** What a file system takes for something else than a character of a name: separators, drives, streams, controls. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const FOREIGN = /[\\:*?"<>|\u0000-\u001f\u007f]/;

/** Whether a model is named by where it lies on a hub, and not by its file. */
export function isHubName(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** Reads the name of a model on a hub. @throws ERR_BLOCKSTEP_BAD_ARG */
export function readHubName(text: string): HubName {
  const wanted = 'hf:OWNER/NAME or hf:OWNER/NAME:WHICH';
  if (typeof text !== 'string' || !isHubName(text)) throw badArg('model', text, wanted);
  const [repository = '', ...rest] = text.slice(PREFIX.length).split(':');
  const [owner = '', name = '', ...more] = repository.split('/');
  const isWhole = [owner, name].every((part) => PART.test(part) && !part.endsWith('.'));
  const [which = null] = rest;
  if (!isWhole || more.length > 0 || rest.length > 1 || which === '') throw badArg('model', text, wanted);
  return { owner, name, which };
}

/**
 * Whether a path that a hub gives stays where it is put: below the folder of its model, whatever the file system. No `..`, no absolute path,
 * no drive, no hidden name.
 */
export function isPlainPath(path: string): boolean {
  return path.split('/').every(isPlainName) && Buffer.byteLength(path) <= 1024;
}

function isPlainName(name: string): boolean {
  if (name === '' || name.startsWith('.') || /[. ]$/.test(name)) return false;
  return !FOREIGN.test(name) && Buffer.byteLength(name) <= LONGEST_NAME;
}
