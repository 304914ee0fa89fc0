/** An object that computes in threads of its own. */
type Computing = { dispose(): void };

/**
 * Living contexts of this thread. The references are weak, so that an unused context can be
 * collected.
 */
const contexts = new Set<WeakRef<Computing>>();
let listens = false;

/**
 * Ends a context before the process ends. `process.exit` skips the hooks by which Node tells addons
 * of the end of an environment. It destroys the global objects of llama.cpp while threads compute
 * with them, which is a segmentation fault.
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
