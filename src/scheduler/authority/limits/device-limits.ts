import { badArg } from '../../../base/checks.js';

/** The rules by which a GPU decides admissions, by name. It knows no others; the remaining rules are the host's. */
export const RULES_OF_DEVICE = Object.freeze({
  admissionLookahead: false,
  watermark: 0,
  loadReservation: false,
  draftSlots: 0,
  padDecode: false,
});

type RulesOfDevice = { readonly [Rule in keyof typeof RULES_OF_DEVICE]: unknown };

/** The options, checked one by one, that a GPU which decides may not be given all of. */
interface DecidedConfig extends RulesOfDevice {
  readonly borrower: object | null;
  readonly kvEvents: object | null;
  readonly kvGroups: object | null;
}

/**
 * Refuses what does not go with a GPU that decides.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and what was expected
 */
export function checkDecidable(config: DecidedConfig): void {
  const needsHost = (why: string): Error => badArg('authority', 'device', `host with ${why}`);
  if (config.borrower !== null) throw needsHost('a borrower: the GPU reads the queues by itself');
  if (config.kvEvents !== null) throw needsHost('kvEvents: the host tells them');
  for (const [name, known] of Object.entries(RULES_OF_DEVICE)) {
    const value = config[name as keyof RulesOfDevice];
    if (value !== known)
      throw badArg(name, value, `${known} with authority device: the GPU decides by no other rule`);
  }
  if (config.kvGroups !== null) throw needsHost('kvGroups: the GPU decides for one group');
}
