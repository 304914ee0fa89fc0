import { sloInWords } from '../../../planner/sweep/slo.js';
import { readHost } from '../../../report/host.js';
import { counted, datum, decimal, duration, figure, percent } from '../../../report/markup/figures.js';
import { type Html, html } from '../../../report/markup/html.js';
import { dataTable, factTable } from '../../../report/markup/tables.js';
import type { PlotLibrary } from '../../../report/page/library.js';
import { renderPage, type Section } from '../../../report/page/page.js';
import type { Tile } from '../../../report/page/tiles.js';
import { commandLine } from '../../terminal/command-line.js';
import {
  loadInWords,
  pointInWords,
  type Told,
  trustInWords,
  vllmCommand,
  warningsOf,
} from '../report/plan-words.js';
import { fleetChart, knobChart, loadChart, paretoChart } from './plan-charts.js';

/** A plan, its command line, and its date. */
export interface PlanPageInput extends Told {
  readonly args: readonly string[];
  readonly date: Date;
}

/** Renders the page of a plan: one file. */
export function planPage(told: PlanPageInput, library: PlotLibrary): string {
  const { found, input, trace, args, date } = told;
  const { slo, profile } = input;
  const { finalists, fleet, sensitivities, points } = found;
  const [winner] = finalists;
  const host = readHost();
  const trust = html`${factTable(trustInWords(told))}
<p>Times are calculated: the scheduler decides each step as vLLM’s does, and the profile says how long it takes. Near the highest load that meets the objective, latencies grow without bounds: plan with head-room.</p>`;
  const sections: Section[] = [
    { title: 'Options and latencies', charts: [paretoChart(told)] },
    {
      title: 'The highest load that meets the objective',
      intro:
        'The share of the nearest bound that is used as requests arrive faster. Above 100 % the objective is missed. Shaded: the range of other fits of the profile.',
      charts: finalists.map(loadChart),
    },
    {
      title: `Effect of each option at ${figure(found.rankedAt)} requests/s`,
      intro:
        input.search === 'halving'
          ? 'Of all combinations with a value, under the requests of the first round: the best one, and the middle one (dashed).'
          : 'Of all combinations with a value: the best one, and the middle one (dashed).',
      charts: sensitivities.filter(({ values }) => values.length > 1).map(knobChart),
    },
    ...(fleet === null ? [] : [{ title: 'How many engines', charts: [fleetChart(fleet.windows)] }]),
    { title: 'How far to trust this', content: trust },
    {
      title: 'The best options, for vLLM',
      content: html`<p><code>${vllmCommand(told, winner.point)}</code></p>`,
    },
    {
      title: 'All figures',
      content: html`<h3>Options at the trace’s own load</h3>${pointTable(told)}<h3>Loads</h3>${finalistTable(told)}${fleetTable(told)}`,
    },
    {
      title: 'How it was made',
      content: factTable([
        ['Command', html`<code>${commandLine(['blockstep', ...args])}</code>`],
        ['Objective', sloInWords(slo)],
        ['Trace', html`<bdi>${trace}</bdi>`],
        [
          'Made',
          `by blockstep ${host.blockstep} on ${date.toISOString().slice(0, 10)}, in ${counted(found.steps, 'simulated step')} of points`,
        ],
      ]),
    },
  ];
  return renderPage(
    {
      brand: 'blockstep plan',
      title: html`Capacity for <bdi>${trace}</bdi>`,
      plainTitle: `Capacity for ${trace}`,
      lead: html`${counted(points.length, 'set')} of options for ${profile.name}, each simulated with ${input.search === 'halving' ? 'all requests of the trace or the first ones' : 'the requests of the trace'}, under ${sloInWords(slo)}.`,
      source: 'virtual',
      warnings: warningsOf(told),
      tiles: tiles(told),
      sections: sections.filter((each) => !('charts' in each) || each.charts.length > 0),
      footer: html`<p>Made by blockstep ${host.blockstep}.</p>`,
      data: {
        plan: found,
        profile: { name: profile.name, kind: profile.kind, provenance: profile.provenance },
        args,
        date: date.toISOString(),
      },
    },
    library,
  );
}

function tiles({ found }: Told): Tile[] {
  const [{ capacity, band, point }] = found.finalists;
  const { ttft, tpot } = capacity.run.latencies;
  const source = 'virtual';
  const isKept = capacity.requestsPerSecond > 0;
  const made: Tile[] = [
    {
      label: 'Highest load of the best options',
      value: isKept ? datum(capacity.requestsPerSecond) : null,
      unit: 'requests/s',
      detail: !isKept
        ? 'none that was tried'
        : band === null
          ? 'no error band'
          : `${figure(band[0])} to ${figure(band[1])}`,
      source,
    },
    {
      label: 'The trace’s own load',
      value: datum(found.requestsPerSecond),
      unit: 'requests/s',
      detail: 'on average',
      source,
    },
    {
      label: 'Time to first token there',
      value: ttft.p95 === null ? null : datum(ttft.p95),
      unit: 'ms, p95',
      detail: `per output token ${ms(tpot.p95)}; ${pointInWords(point)}`,
      source,
    },
  ];
  if (found.fleet !== null) {
    const { engines } = found.fleet;
    made.push({
      label: 'Engines for the trace',
      value: engines === null ? null : datum(engines),
      unit: 'engines',
      detail: engines === null ? 'more than were allowed' : 'over all of it',
      source,
    });
  }
  return made;
}

const ms = (value: number | null): string => (value === null ? '–' : duration(value));

function pointTable({ found }: Told): Html {
  const rows = found.points.map(({ point, run, isParetoOptimal, band }) => [
    pointInWords(point),
    Number.isFinite(run.strain) ? `${decimal(100 * run.strain)} %` : '–',
    ms(run.latencies.ttft.p50),
    ms(run.latencies.ttft.p95),
    band === null ? '–' : `${ms(band.ttftMs[0])} to ${ms(band.ttftMs[1])}`,
    ms(run.latencies.tpot.p95),
    ms(run.latencies.e2e.p95),
    datum(run.tokensPerSecond),
    datum(run.preemptions),
    datum(run.requests),
    percent(run.extrapolated),
    isParetoOptimal ? 'yes' : '',
  ]);
  const head = [
    'options',
    'of a bound',
    'TTFT p50',
    'p95',
    'band',
    'TPOT p95',
    'E2E p95',
    'tokens/s',
    'preemptions',
    'requests',
    'extrapolated',
    'Pareto',
  ];
  return dataTable(head, rows);
}

function finalistTable({ found }: Told): Html {
  const rows = found.finalists.map((each) => [pointInWords(each.point), loadInWords(each)]);
  return dataTable(['options', 'highest load'], rows);
}

function fleetTable({ found }: Told): Html | null {
  if (found.fleet === null) return null;
  const rows = found.fleet.windows.map(({ fromMs, requests, engines }) => [
    duration(fromMs),
    datum(requests),
    engines === null ? 'more' : datum(engines),
  ]);
  return html`<h3>Engines over time</h3>${dataTable(['from', 'requests', 'engines'], rows)}`;
}
