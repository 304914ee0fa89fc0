/**
 * The script of a report's page. It runs in a browser, inside the page. It draws the charts in the colours of the present scheme,
 * and again when the scheme or the width changes. It marks the time at the pointer in all charts over time. The data blocks that it
 * reads are made by ../page/page.ts, the charts in them by ../charts/.
 */

/** @typedef {{ heading: string, format: string, lines: { label: string, color: string, text: string }[] }} Tooltip */
/** @typedef {{ baseOption: { dataset: { source: Cell[][] } } }} Option */
/** @typedef {{ id: string, option: Option, tooltip: Tooltip, isOverTime?: true }} Chart */
/** @typedef {number | string | null} Cell */
/** @typedef {{ on(event: string, listener: (event: { offsetX: number, offsetY: number }) => void): void }} Pointer */
/**
 * @typedef {{
 *   setOption(option: unknown, fresh: boolean): void,
 *   resize(): void,
 *   getZr(): Pointer,
 *   containPixel(finder: string, point: number[]): boolean,
 *   getHeight(): number,
 *   convertFromPixel(finder: { xAxisIndex: number }, x: number): number,
 *   convertToPixel(finder: { xAxisIndex: number }, value: number): number,
 *   dispatchAction(action: object): void,
 * }} Plot
 */

/** @type {Chart[]} */
const charts = JSON.parse(document.getElementById('charts')?.textContent ?? '[]');
/** @type {{ init(element: Element, theme: null, options: { renderer: 'svg' }): Plot }} */
const echarts = Reflect.get(globalThis, 'echarts');

/** @param {number} value */
function figure(value) {
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && magnitude < 0.001) return value.toExponential(1);
  const digits = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : 4;
  return value.toLocaleString('en-US', { maximumFractionDigits: digits });
}

/** @param {number} value */
function percent(value) {
  return `${(100 * value).toLocaleString('en-US', { maximumFractionDigits: 1 })} %`;
}

/** @type {Record<string, (value: number) => string>} */
const formats = { figure, percent };

/**
 * @param {string} text with `{i}` for cell i
 * @param {Cell[]} row
 * @param {(value: number) => string} format
 */
function fill(text, row, format) {
  return text.replace(/\{(\d+)\}/g, (_, column) => {
    const cell = row[Number(column)];
    if (typeof cell === 'string') return cell;
    return cell === null || cell === undefined ? '–' : format(cell);
  });
}

/**
 * The words about one row of a dataset.
 * @param {Tooltip} tooltip
 * @param {Cell[]} row
 */
function describe({ heading, format, lines }, row) {
  const box = document.createElement('div');
  /** @param {string} text @param {string} name */
  const add = (text, name) => {
    const line = box.appendChild(document.createElement('div'));
    line.className = name;
    line.textContent = text;
    return line;
  };
  add(fill(heading, row, figure), 'tooltip-head');
  for (const { label, color, text } of lines) {
    const line = add(`${label} ${fill(text, row, formats[format])}`.trim(), 'tooltip-line');
    line.style.setProperty('--swatch', color);
  }
  return box;
}

/**
 * @param {Tooltip} tooltip
 * @returns {(params: { value: Cell[] } | { value: Cell[] }[]) => HTMLElement}
 */
function tooltipOf(tooltip) {
  return (params) => describe(tooltip, (Array.isArray(params) ? params[0] : params).value);
}

/**
 * Puts the scheme's colours and the page's functions into an option.
 * @param {unknown} value
 * @param {Chart} chart
 * @param {CSSStyleDeclaration} style
 * @returns {unknown}
 */
function resolve(value, chart, style) {
  if (Array.isArray(value)) return value.map((item) => resolve(item, chart, style));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item, chart, style)]));
  }
  if (typeof value !== 'string') return value;
  if (value === 'inherit') return style.fontFamily;
  if (value === 'fn:tooltip') return tooltipOf(chart.tooltip);
  if (value.startsWith('fn:')) return formats[value.slice(3)];
  if (value.startsWith('unit:')) {
    return (/** @type {number} */ number) => `${figure(number)} ${value.slice(5)}`;
  }
  const name = /^var\((--[\w-]+)\)$/.exec(value)?.[1];
  return name === undefined ? value : style.getPropertyValue(name).trim();
}

/** @type {Map<Element, Plot>} */
const plots = new Map();

function draw() {
  const style = getComputedStyle(document.body);
  for (const chart of charts) {
    const element = document.getElementById(chart.id);
    if (element === null) continue;
    let plot = plots.get(element);
    if (plot === undefined) {
      plot = echarts.init(element, null, { renderer: 'svg' });
      plots.set(element, plot);
      if (chart.isOverTime) link(chart, plot, element);
    }
    plot.setOption(resolve(chart.option, chart, style), true);
  }
}

/** The charts over time. @type {{ chart: Chart, plot: Plot, readout: Element | null | undefined }[]} */
const linked = [];

/**
 * Has a chart show the time at the pointer, its own or that of another chart.
 * @param {Chart} chart
 * @param {Plot} plot
 * @param {Element} element
 */
function link(chart, plot, element) {
  linked.push({ chart, plot, readout: element.parentElement?.querySelector('.readout') });
  const pointer = plot.getZr();
  pointer.on('mousemove', ({ offsetX, offsetY }) => {
    const inside = plot.containPixel('grid', [offsetX, offsetY]);
    mark(inside ? plot.convertFromPixel({ xAxisIndex: 0 }, offsetX) : null);
  });
  pointer.on('globalout', () => mark(null));
}

/** @param {number | null} time in the unit of the axis; null = the pointer is at none */
function mark(time) {
  for (const { chart, plot, readout } of linked) {
    const type = 'updateAxisPointer';
    if (time === null) plot.dispatchAction({ type, currTrigger: 'leave' });
    else
      plot.dispatchAction({ type, x: plot.convertToPixel({ xAxisIndex: 0 }, time), y: plot.getHeight() / 2 });
    const { source } = chart.option.baseOption.dataset;
    const row =
      time === null ? undefined : source.find(([from, to]) => Number(from) <= time && time <= Number(to));
    readout?.replaceChildren(...(row === undefined ? [] : describe(chart.tooltip, row).children));
  }
}

draw();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) plots.get(target)?.resize();
});
for (const element of plots.keys()) observer.observe(element);
document.documentElement.dataset['drawn'] = 'true';
