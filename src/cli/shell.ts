/** The command as it could be typed again into a POSIX shell. */
export function commandLine(args: readonly string[]): string {
  return ['blockstep', ...args].map(quote).join(' ');
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
