// Charts of named rows: their height and labels.
import type { YAXisComponentOption } from 'echarts';

/** How many characters of a row's name fit into a line of a narrow page, and the height of a line in pixels. */
const [LINE_CHARACTERS, LINE] = [18, 13];

/** Height of a chart of named rows, one below the other, in pixels: enough for the longest name in a narrow page. */
export function rowsHeight(names: readonly string[]): number {
  const lines = Math.ceil(Math.max(...names.map((name) => name.length)) / LINE_CHARACTERS);
  return 84 + names.length * Math.max(30, LINE * lines + 4);
}

/** How the names of rows are written in `width` pixels. In narrow pages long names take two lines. */
export function rowLabels(width: number, fontSize: number): object {
  return {
    axisLabel: { color: 'var(--text)', fontSize, lineHeight: 13, interval: 0, width, overflow: 'break' },
  };
}

/** The axis that names the rows, the first one on top. */
export function rowAxis(names: readonly string[], labelWidth: number): YAXisComponentOption {
  return {
    type: 'category',
    data: [...names],
    inverse: true,
    axisTick: { show: false },
    axisLine: { lineStyle: { color: 'var(--axis)' } },
    ...rowLabels(labelWidth, 12),
  } as YAXisComponentOption;
}
