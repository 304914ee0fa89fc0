import type { KvGroup } from './kv-groups.js';

/**
 * A short description of a KV cache group for people: its type, and the properties that distinguish
 * it from others of that type.
 */
export function nameOfGroup({
  type,
  window,
  chunk,
  mode,
}: Pick<KvGroup, 'type' | 'window' | 'chunk' | 'mode'>): string {
  if (mode !== null) return `${type} ${mode}`;
  return window + chunk > 0 ? `${type} ${window + chunk}` : type;
}
