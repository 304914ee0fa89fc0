import type { Host } from '../../../report/host.js';
import type { Report } from '../report/report.js';
import type { Measurements } from '../run/measurements.js';
import type { ReplaySeries } from '../run/replay-series.js';

/** The input of the page of one replay. */
export interface ReplayPageInput {
  report: Report;
  measurements: Measurements;
  series: ReplaySeries;
  /** Whether the scheduler wrote a log meanwhile. */
  recorded: boolean;
  /** The arguments of the command. */
  args: readonly string[];
  host: Host;
  date: Date;
}
