// Formats an option for `--help`.
import type { Option } from 'commander';

/**
 * The form of an option in `--help`. An option that is on by default has one line for both of its
 * forms (`--[no-]name`). An option with two names is shown by our name, not by vLLM's.
 */
export function optionTerm(option: Option): string {
  if (option.long === '--help') return option.flags;
  const value = /[<[].*$/.exec(option.flags)?.[0] ?? '';
  const name = option.isBoolean() && option.defaultValue === true ? `--[no-]${option.name()}` : option.long;
  return `${name} ${value}`.trim();
}

/** The description of an option, with its choices and its default. */
export function optionDescription({
  description,
  argChoices,
  defaultValue,
  defaultValueDescription,
}: Option): string {
  const notes: string[] = [];
  if (argChoices !== undefined) notes.push(argChoices.join(', '));
  if (defaultValue === true) notes.push('default: on');
  else if (defaultValue !== undefined && defaultValue !== false)
    notes.push(`default: ${defaultValueDescription ?? written(defaultValue)}`);
  return notes.length === 0 ? description : `${description} (${notes.join('; ')})`;
}

/** A default in the form that a user would type: numbers from 1e9 on with an exponent. */
function written(value: unknown): string {
  return typeof value === 'number' && value >= 1e9 ? value.toExponential().replace('+', '') : String(value);
}
