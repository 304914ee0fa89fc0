import type {
  EChartsOption,
  TooltipComponentOption,
  XAXisComponentOption,
  YAXisComponentOption,
} from 'echarts';
import type { Html } from '../markup/html.js';

/** Where figures come from: from the cost model, or from a clock. */
export type ChartSource = 'virtual' | 'measured';

/** A chart of a page, with its words. */
export interface Chart {
  /** Unique in the page; letters, digits and hyphens. */
  id: string;
  title: string;
  /** Of what is drawn. */
  unit?: string;
  source: ChartSource;
  /** One sentence that says what is seen, for those who do not see it. */
  description: string;
  /** What to know to read it. */
  note?: string;
  /** Pixels, in wide and in narrow pages. */
  height?: number;
  /** Takes the whole width of the page. */
  wide?: boolean;
  /** A text says why there is nothing to draw. */
  drawing: Drawing | string;
  /** The figures in numbers, where they stand nowhere else. */
  table?: Html;
}

/**
 * What is drawn: an ECharts option as plain JSON. In it a text `var(--name)` stands for a colour of the page's present scheme,
 * `fn:name` for a function of the page's script, and `unit:name` for one that writes numbers with that unit. The script puts
 * them in (browser/page.js).
 */
export interface Drawing {
  option: EChartsOption;
  tooltip: ChartTooltip;
  /**
   * Time is its x axis, the same in all such charts of a page. The pointer's time is marked in all of them at once, and each
   * says what it shows there; in the first two columns of its dataset stand the beginning and the end of a row.
   */
  isOverTime?: true;
}

/** What is said of the row of the chart's dataset that the pointer is at. */
export interface ChartTooltip {
  /** Text with `{i}` for column i of the row. */
  heading: string;
  lines: { label: string; color: string; text: string }[];
  /** How columns are written: a function of the page's script. */
  format: 'figure' | 'percent';
}

/** The colour of a chart's first line, and that of a second one, which is dashed as well. */
export const colorOf = (source: ChartSource): string => `var(--${source})`;
export const SECOND_COLOR = 'var(--muted)';

/** Pages narrower than this get less margin and fewer ticks. */
const NARROW = 560;

/** What all charts share; `grid` and axes are the caller's. */
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
  // A second rule takes the first one back when the page is made wide again.
  const wide = Object.fromEntries(Object.keys(narrow).map((key) => [key, own[key] ?? {}]));
  return {
    baseOption: base,
    media: [
      { query: { maxWidth: NARROW }, option: narrow },
      { query: { minWidth: NARROW + 1 }, option: wide },
    ],
  };
}

/** An axis in the page's colours, with its quantity and unit as its name. */
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

function axisLook(): object {
  return {
    axisLabel: { color: 'var(--muted)', fontSize: 12, hideOverlap: true, formatter: 'fn:figure' },
    axisLine: { show: true, lineStyle: { color: 'var(--axis)' } },
    axisTick: { show: true, lineStyle: { color: 'var(--axis)' } },
    splitLine: { lineStyle: { color: 'var(--grid)' } },
    minorTick: { show: false },
  };
}

/** What follows the pointer. */
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

/** Steps within a factor of ten, from many to one. */
const TICK_FACTORS = [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];

/** Round values inside [min, max], evenly enough spaced on a log scale: as many as can be without being more than `most`. */
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
