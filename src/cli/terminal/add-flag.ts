import { type Command, Option } from 'commander';

/** What adds flags to a command: each with a parser of its value, and with a default, where these are given. */
export function flagAdder(
  command: Command,
): (flags: string, help: string, parser?: (text: string) => unknown, value?: unknown) => void {
  return (flags, help, parser, value) => {
    const option = new Option(flags, help);
    if (parser !== undefined) option.argParser(parser);
    command.addOption(value === undefined ? option : option.default(value));
  };
}
