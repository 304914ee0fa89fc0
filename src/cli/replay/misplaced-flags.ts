// Refuses flags that would have no effect.
import type { Command } from 'commander';
import { BlockstepError } from '../../base/errors.js';
import { FIGURE_FLAGS, FILE_FLAGS, GENERATOR_FLAGS, LOG_FLAGS, WORKLOAD_FLAGS } from './replay-flags.js';
import { SERVER_FLAGS } from './server-flags.js';

/** Flags without effect, and the reason. */
type Misplaced = readonly [names: readonly string[], why: string];

/** Refuses flags without effect, which belong to another kind of replay or of workload. */
export function checkFlags(file: string | undefined, command: Command): void {
  for (const [names, why] of misplacedFlags(file, command)) {
    for (const name of names) {
      if (command.getOptionValueSource(name) !== 'cli') continue;
      const flag = command.options.find((option) => option.attributeName() === name)!.long;
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${flag} ${why}`);
    }
  }
}

function misplacedFlags(file: string | undefined, command: Command): Misplaced[] {
  const allBut = (own: readonly string[]): string[] =>
    command.options.map((option) => option.attributeName()).filter((name) => !own.includes(name));
  const isGiven = (name: string): boolean => command.getOptionValueSource(name) === 'cli';
  if (isGiven('log')) {
    if (file !== undefined)
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', '--log cannot be used with a FILE');
    return [[allBut(LOG_FLAGS), 'cannot be used with --log']];
  }
  const ofWorkload: Misplaced =
    file === undefined ? [FILE_FLAGS, 'needs a FILE'] : [GENERATOR_FLAGS, 'cannot be used with a FILE'];
  const ofProfile: Misplaced = isGiven('profile')
    ? [FIGURE_FLAGS, 'cannot be used with --profile, which has its own']
    : [[], ''];
  if (!isGiven('url')) return [[SERVER_FLAGS, 'needs --url'], ofWorkload, ofProfile];
  const own = [...SERVER_FLAGS, ...WORKLOAD_FLAGS, 'url', 'json', 'report'];
  return [
    [allBut(own), 'cannot be used with --url: the server schedules, and takes the time it takes'],
    ofWorkload,
  ];
}
