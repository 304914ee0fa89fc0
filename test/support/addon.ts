// The path of the addon that this process would load.
import { existsSync } from 'node:fs';
import { addonPaths } from '../../src/core/loader.js';

/** The addon that this process would load, for processes that run in a copy of the tree. */
export function addonInUse(): string {
  const path = addonPaths().find((candidate) => existsSync(candidate));
  if (path === undefined) throw new Error(`there is no native addon among ${addonPaths().join(', ')}`);
  return path;
}
