import { badArgument, checkInteger, show } from '../base/errors.js';
import { checkNames, knownNames } from '../base/known-names.js';
import { Life } from './life.js';
import { SCENES, type Scene } from './scene.js';
import { CaseError } from './watch/trouble.js';
import type { MakeConnector } from './world.js';

/** Options of `connectorCases`. */
export interface ConnectorCaseOptions {
  /** Makes the connector, with its workers, for one engine of one run. */
  make: MakeConnector;
  /**
   * Seeds of the runs of each case. A seed decides everything, also the steps in flight (1 to 3)
   * and the ranks (1 or 2). 6 seeds in a row have every combination. Default: 1 to 6.
   */
  seeds?: readonly number[];
  /** Names of the cases to run. Default: all. */
  only?: readonly string[];
  /**
   * False: the connector has nothing to load in these cases, because it only stores, or lacks its
   * peers. Default true: a case without a load shows little, and fails.
   */
  loads?: boolean;
}

/** One case, for any test runner. */
export interface ConnectorCase {
  /** The subject of the case, in words. */
  readonly name: string;
  /** Number of engines. */
  readonly numEngines: number;
  /** Runs the case, with every seed. Rejects with a `CaseError`. */
  run(): Promise<void>;
}

const OPTIONS = knownNames<ConnectorCaseOptions>('the options of connectorCases', {
  make: true,
  seeds: true,
  only: true,
  loads: true,
});

/**
 * The conformance suite of the connector contract, as a list of cases:
 *
 * ```ts
 * for (const { name, run } of connectorCases({ make })) test(name, run);
 * ```
 *
 * Each case runs one or several engines over `ReferenceExecutor`s, with random clients and its own
 * kind of faults. Afterwards every text must equal the text without the connector. No block of the
 * KV memory may ever have been wrong, and every block, row and pin must have come back.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function connectorCases(options: ConnectorCaseOptions): ConnectorCase[] {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, OPTIONS);
  const { make, seeds = [1, 2, 3, 4, 5, 6], only, loads = true } = options;
  if (typeof make !== 'function') throw badArgument('make', show(make), 'a function that makes a connector');
  if (!Array.isArray(seeds) || seeds.length === 0)
    throw badArgument('seeds', show(seeds), 'a list of at least one seed');
  for (const [i, seed] of seeds.entries()) checkInteger(`seeds[${i}]`, seed, 0, 2 ** 31 - 1);
  const unknown = only?.find((name) => !SCENES.some((scene) => scene.name === name));
  if (unknown !== undefined)
    throw badArgument('only', show(unknown), `one of ${SCENES.map(({ name }) => show(name)).join(', ')}`);
  return SCENES.filter(({ name }) => only?.includes(name) ?? true).map((scene) => ({
    name: scene.name,
    numEngines: scene.numEngines,
    run: () => runCase(scene, seeds as readonly number[], make, loads),
  }));
}

async function runCase(
  scene: Scene,
  seeds: readonly number[],
  make: MakeConnector,
  loads: boolean,
): Promise<void> {
  let numLoaded = 0;
  let numRefused = 0;
  for (const seed of seeds) {
    const life = new Life(scene, seed, make);
    try {
      const facts = await life.run();
      numLoaded += facts.numLoadedTokens;
      if (facts.isRefused) numRefused++;
    } catch (error) {
      throw caseError(scene, seed, life, error);
    }
  }
  if (!loads || numRefused === seeds.length || numLoaded > 0) return;
  const message = `${show(scene.name)}: the connector never loaded anything, so this shows little; see the option loads`;
  throw new CaseError(scene.name, seeds[0], message, undefined);
}

function caseError({ name }: Scene, seed: number, life: Life, error: unknown): CaseError {
  const what = error instanceof Error ? error.message : String(error);
  const again = `await connectorCases({ make, seeds: [${seed}], only: [${JSON.stringify(name)}] })[0].run()`;
  const message = `${show(name)}, seed ${seed}, ${life.place}: ${what}\nWhat led to it:\n${life.diary}\nTo see it again: ${again}`;
  return new CaseError(name, seed, message, error);
}
