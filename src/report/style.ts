/** Colours of the light scheme, and of the dark one. Text has a contrast of 4.5 at least, lines of series one of 3. */
const LIGHT = {
  page: '#f6f7f9',
  panel: '#ffffff',
  text: '#1b1f24',
  muted: '#57606a',
  axis: '#8c959f',
  grid: '#e6e9ed',
  shade: '#8c959f22',
  border: '#d5dae0',
  link: '#0757a8',
  'series-1': '#0072b2',
  'series-2': '#c75000',
  'series-3': '#00795a',
  'series-4': '#a8478a',
  'series-5': '#8a6500',
  'series-6': '#55606b',
};

const DARK: typeof LIGHT = {
  page: '#0f1318',
  panel: '#171c23',
  text: '#e8ebef',
  muted: '#a3adb8',
  axis: '#6b7683',
  grid: '#272e37',
  shade: '#a3adb822',
  border: '#2d353f',
  link: '#7cbcf5',
  'series-1': '#56b4e9',
  'series-2': '#f0883e',
  'series-3': '#2fc79a',
  'series-4': '#e39ac9',
  'series-5': '#e6c229',
  'series-6': '#b5bec8',
};

const variables = (colors: typeof LIGHT): string =>
  Object.entries(colors)
    .map(([name, value]) => `--${name}: ${value};`)
    .join(' ');

/** The style of every page. */
export const STYLE = `
:root { color-scheme: light dark; ${variables(LIGHT)} }
@media (prefers-color-scheme: dark) { :root { ${variables(DARK)} } }
@media print { :root { color-scheme: light; ${variables(LIGHT)} } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
}
main, body > header, body > footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
body > header { padding-top: 28px; }
body > footer { padding-top: 12px; padding-bottom: 32px; color: var(--muted); font-size: 13px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 34px 0 12px; }
h3 { font-size: 16px; margin: 0; }
p { margin: 6px 0; max-width: 80ch; }
a { color: var(--link); }
code { font: 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere; }
.lead { color: var(--muted); }
.warning { border-left: 4px solid var(--series-2); padding: 8px 12px; background: var(--panel); }
.panel { background: var(--panel); border: 1px solid var(--border); border-radius: 8px; padding: 16px 18px; }
.columns { display: grid; gap: 16px; grid-template-columns: repeat(2, minmax(0, 1fr)); }
.wide { grid-column: 1 / -1; }
figure { margin: 0; }
figure header { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: baseline; margin-bottom: 8px; }
.tag { font-size: 12px; color: var(--muted); border: 1px solid var(--axis); border-radius: 10px; padding: 0 8px; }
.chart { width: 100%; }
figcaption { color: var(--muted); font-size: 13px; margin: 6px 0 8px; max-width: 90ch; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
.data { width: 100%; font-size: 13px; }
.data th, .data td { padding: 4px 8px; border-top: 1px solid var(--border); text-align: right; white-space: nowrap; }
.data thead th, .data thead td { border-top: 0; color: var(--muted); font-weight: 500; }
.data th:first-child, .data td:first-child { text-align: left; padding-left: 0; }
.data th:first-child { font-weight: 500; white-space: normal; min-width: 8em; }
.data td:last-child, .data thead th:last-child { padding-right: 0; }
.facts { width: 100%; }
.facts + .scroll, .facts + details { margin-top: 14px; }
.facts th, .facts td { padding: 5px 0; border-top: 1px solid var(--border); text-align: left; vertical-align: top; }
.facts tr:first-child > * { border-top: 0; }
.facts th { width: 34%; padding-right: 14px; color: var(--muted); font-weight: 500; }
.facts td { overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--link); }
details > * + * { margin-top: 10px; }
.tooltip-head { color: var(--muted); }
.tooltip-line::before { content: ""; display: inline-block; width: 10px; height: 10px; margin-right: 6px; background: var(--swatch); }
@media (max-width: 760px) {
  .columns { grid-template-columns: minmax(0, 1fr); }
  main, body > header, body > footer { padding-left: 12px; padding-right: 12px; }
  .panel { padding: 12px; }
  h1 { font-size: 22px; }
  .data th, .data td { padding-left: 5px; padding-right: 5px; }
}
@media print { body { background: none; } .panel { break-inside: avoid; } }
`;
