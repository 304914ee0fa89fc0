// Reads or generates the workload that the flags ask for.
import { counted } from '../../report/markup/figures.js';
import { generateWorkload } from '../../workload/generate.js';
import { readTrace } from '../../workload/trace.js';
import type { Workload } from '../../workload/workload.js';
import type { Io } from '../terminal/io.js';
import type { ReplayFlags } from './replay-flags.js';
import type { Source } from './report/report.js';

/** The flags that determine the requests. */
export type SourceFlags = Pick<
  ReplayFlags,
  'requests' | 'requestRate' | 'seed' | 'format' | 'limit' | 'skipBad'
>;

/**
 * Reads or generates the requests, and reports skipped lines to the user.
 * @returns null after an interrupt, which is printed
 * @throws the errors of `readTrace`
 */
export async function loadWorkload(
  file: string | undefined,
  flags: SourceFlags,
  { stderr, signal }: Io,
): Promise<{ workload: Workload; source: Source } | null> {
  const loaded = await load(file, flags, signal).catch((error: unknown) => {
    if (signal.aborted) return null;
    throw error;
  });
  if (loaded === null) stderr.write('interrupted while the trace was read: nothing ran\n');
  else if (loaded.source.firstSkipped !== null) {
    const lines = counted(loaded.source.skippedLines, 'malformed line');
    stderr.write(`skipped ${lines}, the first: ${loaded.source.firstSkipped}\n`);
  }
  return loaded;
}

async function load(
  file: string | undefined,
  flags: SourceFlags,
  signal: AbortSignal,
): Promise<{ workload: Workload; source: Source }> {
  if (file === undefined) {
    const { requests, requestRate, seed } = flags;
    const workload = generateWorkload({ requests, requestRate, seed });
    const none = { skippedLines: 0, firstSkipped: null, zeroOutputs: 0 };
    return { workload, source: { file: null, format: 'generated', ...told(workload), ...none } };
  }
  const { format, limit, skipBad, seed } = flags;
  const { workload, ...found } = await readTrace(file, { format, limit, skipBad, seed, signal });
  return { workload, source: { file, ...told(workload), ...found } };
}

/** Facts of a workload, for the report. */
function told({ length, hasContents }: Workload): Pick<Source, 'requests' | 'promptContents'> {
  return { requests: length, promptContents: hasContents };
}
