import { show } from '../core/errors.js';

/** Any thrown value in a few words. */
export function describe(error: unknown): string {
  if (typeof error === 'string') return error;
  try {
    if (error instanceof Error) return `${error.name}: ${error.message}`.slice(0, 300);
  } catch {
    // A hostile error is described like any other value.
  }
  return show(error);
}
