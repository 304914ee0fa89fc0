/** What computes in threads of its own. */
type Computing = { dispose(): void };

/** Contexts of this thread that may still be there. Weak, so that one that nobody holds is collected. */
const contexts = new Set<WeakRef<Computing>>();
let listens = false;

/**
 * Ends a context before the process does. `process.exit` ends a process without the hooks by which Node tells addons of the end of an
 * environment: it destroys the global objects of llama.cpp while threads compute with them, which is a segmentation fault.
 */
export function endAtExit(context: Computing): void {
  for (const each of contexts) if (each.deref() === undefined) contexts.delete(each);
  contexts.add(new WeakRef(context));
  if (listens) return;
  listens = true;
  process.once('exit', () => {
    for (const each of contexts) each.deref()?.dispose();
  });
}
