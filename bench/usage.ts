// Answers `--help` for the smaller programs.

/** Prints what the program takes and ends it with exit code 0, if its command line asks for that. */
export function answerHelp(usage: string, args: readonly string[] = process.argv.slice(2)): void {
  if (!args.includes('--help') && !args.includes('-h')) return;
  console.log(usage);
  process.exit(0);
}
