// Adds a flag to a command.
import { type Command, Option } from 'commander';

/** Returns a function that adds flags to a command, each with an optional parser and default. */
export function flagAdder(
  command: Command,
): (flags: string, help: string, parser?: (text: string) => unknown, value?: unknown) => void {
  return (flags, help, parser, value) => {
    const option = new Option(flags, help);
    if (parser !== undefined) option.argParser(parser);
    command.addOption(value === undefined ? option : option.default(value));
  };
}
