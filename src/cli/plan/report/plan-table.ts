import CliTable3 from 'cli-table3';
import type { EngineWindow } from '../../../planner/sweep/fleet-size.js';
import { sloInWords } from '../../../planner/sweep/slo.js';
import { counted, duration, figure, percent } from '../../../report/markup/figures.js';
import { wrapped } from '../../replay/report/table-parts.js';
import { loadInWords, pointInWords, type Told, trustInWords, vllmCommand, warningsOf } from './plan-words.js';

/** Rows of the table of points. */
const MOST_ROWS = 20;

/** A plan as tables for a terminal. */
export function planTable(told: Told): string {
  const { found, input, trace } = told;
  const { points, finalists, sensitivities, fleet } = found;
  const ms = (value: number | null): string => (value === null ? '-' : duration(value));
  const ofBound = (strain: number): string => (Number.isFinite(strain) ? `${figure(100 * strain)} %` : '-');
  const whole = points.filter(({ run }) => run.requests === input.workload.length);
  const best = [...whole].sort((a, b) => a.run.strain - b.run.strain).slice(0, MOST_ROWS);
  const parts = [
    ...warningsOf(told).map((warning) => wrapped(`WARNING: ${warning}`)),
    `${trace}: ${counted(points.length, 'point')}${whole.length < points.length ? `, ${whole.length} of them with all requests,` : ''} at ${figure(found.requestsPerSecond)} requests/s, under ${sloInWords(input.slo)}`,
    table(
      ['best at this load', 'of a bound', 'TTFT p95', 'TPOT p95', '', 'extrapolated'],
      best.map(({ point, run, isParetoOptimal }) => [
        pointInWords(point),
        ofBound(run.strain),
        ms(run.latencies.ttft.p95),
        ms(run.latencies.tpot.p95),
        isParetoOptimal ? 'Pareto' : '',
        run.extrapolated === 0 ? '' : percent(run.extrapolated),
      ]),
    ),
    table(
      ['highest load that meets the objective', ''],
      finalists.map((each) => [pointInWords(each.point), loadInWords(each)]),
    ),
    table(
      [`effect of each option at ${figure(found.rankedAt)} requests/s`, 'best by value (share of a bound)'],
      sensitivities.map(({ knob, values }) => [
        knob,
        values.map((each) => `${each.value}: ${ofBound(each.best)}`).join(', '),
      ]),
    ),
  ];
  if (fleet !== null) {
    const needs =
      fleet.engines === null ? 'more engines than were allowed' : counted(fleet.engines, 'engine');
    parts.push(`The trace needs ${needs}. Over time: ${fleet.windows.map(windowInWords).join(' ')}`);
  }
  parts.push(
    table(['how far to trust this', ''], trustInWords(told)),
    `The best options, as vLLM takes them:\n  ${vllmCommand(told, finalists[0].point)}`,
  );
  return `${parts.join('\n')}\n`;
}

function windowInWords({ engines }: EngineWindow): string {
  return engines === null ? '>' : String(engines);
}

function table(head: string[], rows: string[][]): string {
  const made = new CliTable3({ head, style: { head: [], border: [], compact: true }, wordWrap: true });
  made.push(...rows);
  return made.toString();
}
