import { badArg } from '../../../base/checks.js';

/** The prefix of a model on a hub: `hf:OWNER/NAME[:WHICH]`. */
const PREFIX = 'hf:';

/** A model on a hub. */
export interface HubName {
  readonly owner: string;
  readonly name: string;
  /** The wanted file: the quantization of its weights (`Q4_K_M`), or its path. Null: not given. */
  readonly which: string | null;
}

/** The hub's rule for names of owners and models, which become folder names here. */
const PART = /^[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,95}$/;
/** Most bytes of a file name in file systems. Our names have an ending more. */
const LONGEST_NAME = 200;
/**
 * Characters with a meaning for some file system: separators, drives, streams, control characters.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const FOREIGN = /[\\:*?"<>|\u0000-\u001f\u007f]/;

/** Whether a text names a model on a hub, and not a file. */
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
 * Whether a path of a hub stays below the folder of its model on every file system. It has no `..`,
 * no drive and no hidden name, and is not absolute.
 */
export function isPlainPath(path: string): boolean {
  return path.split('/').every(isPlainName) && Buffer.byteLength(path) <= 1024;
}

function isPlainName(name: string): boolean {
  if (name === '' || name.startsWith('.') || /[. ]$/.test(name)) return false;
  return !FOREIGN.test(name) && Buffer.byteLength(name) <= LONGEST_NAME;
}
