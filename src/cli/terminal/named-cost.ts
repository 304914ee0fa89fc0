import { existsSync } from 'node:fs';
import { badArgument, show } from '../../base/errors.js';
import { costOf } from '../../executors/cost-model/cost-model.js';
import { PROFILES } from '../../executors/cost-model/profiles.js';
import type { StepCost } from '../../executors/cost-model/step-features.js';
import { profileCost } from '../../planner/model/profile.js';
import { readProfile } from '../../planner/model/profile-file.js';
import { WatchedCost } from '../../planner/model/seen-range.js';

/** Tokens of a block in the built-in profiles. */
const BLOCK = 16;

/** A profile that a command line names. */
export interface NamedCost {
  readonly name: string;
  /** Counts the steps outside the measurements, for a profile from a file. */
  readonly cost: StepCost;
  /** Tokens of KV cache that fit; null: the profile does not say. */
  readonly kvTokens: number | null;
  /** How far its times are measured, in a sentence; null for a built-in profile. */
  readonly measured: string | null;
}

/**
 * Finds a profile by name: a built-in profile, or a file.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an unknown name; ERR_BLOCKSTEP_BAD_FILE for a file that is no
 * profile
 */
export function namedCost(name: string): NamedCost {
  if (Object.hasOwn(PROFILES, name)) {
    const { model, numBlocks } = PROFILES[name];
    return { name, cost: costOf(model), kvTokens: numBlocks * BLOCK, measured: null };
  }
  if (!existsSync(name))
    throw badArgument(
      '--profile',
      show(name),
      `${Object.keys(PROFILES).join(', ')}, or the path of a profile`,
    );
  const profile = readProfile(name);
  const { seen, kvTokens } = profile;
  const measured =
    seen === null
      ? 'EXTRAPOLATED: nothing in this profile was measured.'
      : `Measured with steps of up to ${seen.tokens[1]} tokens and ${seen.rows[1]} requests, and contexts of up to ${seen.largestDecodeContext[1]} tokens; steps beyond are EXTRAPOLATED.`;
  return { name: profile.name, cost: new WatchedCost(profileCost(profile), seen), kvTokens, measured };
}
