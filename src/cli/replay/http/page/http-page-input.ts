import type { Host } from '../../../../report/host.js';
import type { HttpReport } from '../report/http-report.js';
import type { HttpMeasurements } from '../run/http-measurements.js';
import type { HttpSeries } from '../run/http-series.js';

/** The input of the page of one replay over HTTP. */
export interface HttpPageInput {
  report: HttpReport;
  measurements: HttpMeasurements;
  series: HttpSeries;
  /** The arguments of the command, without secrets. */
  args: readonly string[];
  host: Host;
  date: Date;
}
