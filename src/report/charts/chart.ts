import type {
  EChartsOption,
  TooltipComponentOption,
  XAXisComponentOption,
  YAXisComponentOption,
} from 'echarts';
import type { Html } from '../markup/html.js';

/** The source of figures: `virtual`: the cost model, `measured`: a clock. */
export type ChartSource = 'virtual' | 'measured';

/** A chart of a page, with its words. */
export interface Chart {
  /** Unique in the page; letters, digits and hyphens. */
  id: string;
  title: string;
  /** Unit of the values. */
  unit?: string;
  source: ChartSource;
  /** The chart in one sentence, for screen readers. */
  description: string;
  /** Explains the chart to its reader. */
  note?: string;
  /** Height in pixels, in wide and in narrow pages. */
  height?: number;
  /** Takes the whole width of the page. */
  wide?: boolean;
  /** The drawing; or a text that says why there is nothing to draw. */
  drawing: Drawing | string;
  /** The figures as a table, if no other part of the page has them. */
  table?: Html;
}

/**
 * An ECharts option as plain JSON. Three kinds of text in it are replaced by the page's script
 * (browser/page.js). `var(--name)` becomes a colour of the page's present scheme, and `fn:name` a
 * function of the script. `unit:name` becomes a function that writes numbers with that unit.
 */
export interface Drawing {
  option: EChartsOption;
  tooltip: ChartTooltip;
  /**
   * The x axis is time, the same time in all such charts of a page. All of them mark the time at
   * the pointer at once, and each shows its values there. The first two columns of the dataset are
   * the beginning and the end of a row.
   */
  isOverTime?: true;
}

/** The text about the dataset's row at the pointer. */
export interface ChartTooltip {
  /** Text with `{i}` for column i of the row. */
  heading: string;
  lines: { label: string; color: string; text: string }[];
  /** The function of the page's script that writes the columns. */
  format: 'figure' | 'percent';
}

/** The colour of a chart's first line. A second line has `SECOND_COLOR`, and is dashed. */
export const colorOf = (source: ChartSource): string => `var(--${source})`;
export const SECOND_COLOR = 'var(--muted)';

/** Charts of at most this width in pixels get less margin and fewer ticks. */
const NARROW = 560;

/**
 * The basic option of all charts. The caller adds `grid`, axes and series; `narrow` holds the
 * differences of narrow pages.
 */
export function baseOption(
  own: EChartsOption,
  narrow: EChartsOption = {},
): Pick<EChartsOption, 'baseOption' | 'media'> {
  const base: EChartsOption = {
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: 'inherit', color: 'var(--text)' },
    ...own,
  };
  // The second rule undoes the first rule when the page becomes wide again.
  const wide = Object.fromEntries(Object.keys(narrow).map((key) => [key, own[key] ?? {}]));
  return {
    baseOption: base,
    media: [
      { query: { maxWidth: NARROW }, option: narrow },
      { query: { minWidth: NARROW + 1 }, option: wide },
    ],
  };
}

/** An x axis in the page's colours; `name` is its quantity and unit. */
export function xAxis(name: string, own: XAXisComponentOption): XAXisComponentOption {
  return {
    name,
    nameLocation: 'middle',
    nameGap: 30,
    nameTextStyle: { color: 'var(--muted)', fontSize: 12 },
    ...axisLook(),
    ...own,
  } as XAXisComponentOption;
}

/** A y axis in the page's colours; `name` is its quantity and unit. */
export function yAxis(name: string, own: YAXisComponentOption): YAXisComponentOption {
  return {
    name,
    nameLocation: 'end',
    nameGap: 12,
    nameTextStyle: { color: 'var(--muted)', fontSize: 12, align: 'left', padding: [0, 0, 0, -44] },
    ...axisLook(),
    ...own,
  } as YAXisComponentOption;
}

/** The labels of an axis. */
export const AXIS_LABEL = { color: 'var(--muted)', fontSize: 12, hideOverlap: true, formatter: 'fn:figure' };

function axisLook(): object {
  return {
    axisLabel: AXIS_LABEL,
    axisLine: { show: true, lineStyle: { color: 'var(--axis)' } },
    axisTick: { show: true, lineStyle: { color: 'var(--axis)' } },
    splitLine: { lineStyle: { color: 'var(--grid)' } },
    minorTick: { show: false },
  };
}

/** The box that follows the pointer. */
export function pointerTooltip(type: 'line' | 'shadow' = 'line'): TooltipComponentOption {
  return {
    trigger: 'axis',
    confine: true,
    transitionDuration: 0,
    backgroundColor: 'var(--panel)',
    borderColor: 'var(--axis)',
    textStyle: { color: 'var(--text)', fontSize: 12 },
    axisPointer: { type, lineStyle: { color: 'var(--muted)' }, shadowStyle: { color: 'var(--shade)' } },
    formatter: 'fn:tooltip',
  };
}

/** Choices of ticks within a factor of ten, from many ticks to one. */
const TICK_FACTORS = [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];

/**
 * Round values inside [min, max], about evenly spaced on a logarithmic scale: as many as possible,
 * and at most `most`.
 */
export function logTicks(min: number, max: number, most: number): number[] {
  const ticks = (factors: readonly number[]): number[] => {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power++) {
      for (const factor of factors) {
        const tick = Number(`${factor}e${power}`);
        if (tick >= min && tick <= max) found.push(tick);
      }
    }
    return found;
  };
  const choices = TICK_FACTORS.map(ticks);
  const powers = choices[choices.length - 1];
  const every = Math.ceil(powers.length / most);
  return choices.find((choice) => choice.length <= most) ?? powers.filter((_, i) => i % every === 0);
}

/** Ticks of a logarithmic axis of figures, at most `most`. */
export function logAxisTicks(low: number, high: number, most: number): object {
  const customValues = logTicks(low, high, most);
  return { axisTick: { customValues }, axisLabel: { ...AXIS_LABEL, customValues } };
}
