// Tasks for the tests of a separate process.
let calls = 0;

/** The input, and how often this thread was asked. */
export function echo(input) {
  calls++;
  return { input, calls };
}

export function fails({ message, code }) {
  throw Object.assign(new TypeError(message), code === undefined ? {} : { code });
}

/** Never ends. */
export function spins() {
  for (;;);
}

/** Wants all memory that there is. */
export function hoards() {
  const kept = [];
  for (;;) kept.push(new Array(1e7).fill(kept.length));
}

export function dives() {
  return 1 + dives();
}

export function repeats(count) {
  return 'a'.repeat(count);
}

export function numbers() {
  return Int32Array.of(1, 2, 3);
}
