import { PALETTE } from './palette.js';

/**
 * The style of every page. Colours: blue for virtual figures, orange for measured figures, red for
 * warnings, grey for the rest. Type: figures are large and in columns, their explanations small and
 * muted.
 */
export const STYLE = `
${PALETTE}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
}
main, body > header, body > footer { max-width: 1200px; margin: 0 auto; padding: 0 24px; }
body > header { padding-top: 40px; }
body > footer { padding-top: 24px; padding-bottom: 40px; color: var(--muted); font-size: 13px; }
h1 { font-size: 30px; line-height: 1.2; font-weight: 650; letter-spacing: -.01em; margin: 0 0 10px; overflow-wrap: anywhere; }
h2 { font-size: 19px; font-weight: 650; margin: 44px 0 4px; }
h3 { font-size: 15px; font-weight: 600; margin: 0; }
p { margin: 6px 0; max-width: 76ch; }
a { color: var(--virtual); }
code { font: 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere; }
.brand { color: var(--muted); font-size: 13px; margin: 0 0 6px; }
.lead { color: var(--muted); font-size: 16px; overflow-wrap: anywhere; }
.lead .virtual, .lead .measured { font-weight: 600; }
.virtual { color: var(--virtual); }
.measured { color: var(--measured); }
.intro { color: var(--muted); font-size: 14px; margin: 0 0 14px; }
.warning {
  border: 1px solid var(--border); border-left: 4px solid var(--warning); border-radius: 6px; background: var(--panel);
  padding: 10px 14px; margin: 14px 0 0; max-width: 90ch; overflow-wrap: anywhere;
}
.warning strong { color: var(--warning); }
.panel { background: var(--panel); border: 1px solid var(--border); border-radius: 10px; padding: 18px 20px; }
.columns { display: grid; gap: 16px; grid-template-columns: repeat(2, minmax(0, 1fr)); }
.wide { grid-column: 1 / -1; }

.tiles {
  display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 1px; margin: 26px 0 0; overflow: hidden;
  background: var(--panel); border: 1px solid var(--border); border-radius: 10px;
}
.tile { box-shadow: 0 0 0 1px var(--border); padding: 16px 18px; }
.tile dt { font-size: 13px; color: var(--muted); }
.tile dd { margin: 0; }
.tile .value { font-size: 27px; line-height: 1.3; font-weight: 650; letter-spacing: -.01em; font-variant-numeric: tabular-nums; }
.tile .value small { font-size: 14px; font-weight: 400; letter-spacing: 0; color: var(--muted); white-space: nowrap; }
.tile .value.none { font-size: 17px; line-height: 2.06; }
.tile .detail { font-size: 13px; color: var(--muted); }
.tile .detail strong { color: var(--text); font-weight: 600; font-variant-numeric: tabular-nums; }

figure { margin: 0; }
figure header { display: flex; flex-wrap: wrap; gap: 2px 10px; align-items: baseline; }
.tag { font-size: 12px; white-space: nowrap; }
.tag::before { content: ""; display: inline-block; width: 7px; height: 7px; margin: 0 5px 1px 0; border-radius: 50%; background: currentColor; }
.unit { color: var(--muted); font-size: 13px; }
.chart { width: 100%; }
figcaption { color: var(--muted); font-size: 13px; margin: 4px 0 8px; max-width: 90ch; }
.empty { color: var(--muted); margin: 0; }
.strip .empty { align-self: center; padding-left: 58px; }
.line::before { content: ""; display: inline-block; width: 18px; margin: 0 7px 4px 0; border-top: 2px solid currentColor; }
.line.second { color: var(--muted); }
.line.second::before { border-top-style: dashed; }

.strips { padding: 4px 20px; }
.strip { display: grid; grid-template-columns: 292px minmax(0, 1fr); gap: 24px; padding: 14px 0; border-top: 1px solid var(--border); }
.strip:first-child { border-top: 0; }
.plot { position: relative; min-width: 0; align-self: center; }
.readout { position: absolute; top: 0; right: 14px; z-index: 1; margin: 0; font-size: 12px; line-height: 18px; pointer-events: none; font-variant-numeric: tabular-nums; }
.readout .tooltip-head, .readout .tooltip-line { display: inline-block; margin-left: 10px; white-space: nowrap; }

table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
.data { width: 100%; font-size: 13px; }
.data th, .data td { padding: 4px 8px; border-top: 1px solid var(--border); text-align: right; white-space: nowrap; }
.data thead th, .data thead td { border-top: 0; color: var(--muted); font-weight: 400; }
.data th:first-child, .data td:first-child { text-align: left; padding-left: 0; }
.data th:first-child { font-weight: 400; white-space: normal; min-width: 8em; }
.data td:last-child, .data thead th:last-child { padding-right: 0; }
.extremes { display: grid; grid-template-columns: repeat(3, 88px); margin: 0; font-size: 12px; font-variant-numeric: tabular-nums; }
.extremes dt { color: var(--muted); }
.extremes dd { margin: 0; font-size: 13px; }
.strip .data { font-size: 12px; }
.strip .data th, .strip .data td { padding-top: 1px; padding-bottom: 1px; border: 0; }
.strip .data th:first-child { min-width: 0; }
.facts { width: 100%; }
.facts + .scroll, .facts + details { margin-top: 16px; }
.facts th, .facts td { padding: 6px 0; border-top: 1px solid var(--border); text-align: left; vertical-align: top; }
.facts tr:first-child > * { border-top: 0; }
.facts th { width: 30%; padding-right: 16px; color: var(--muted); font-weight: 400; }
.facts td { overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--muted); font-size: 14px; }
summary:hover { color: var(--text); }
details > * + * { margin-top: 10px; }
.tooltip-head { color: var(--muted); }
.tooltip-line::before { content: ""; display: inline-block; width: 9px; height: 9px; margin-right: 6px; border-radius: 2px; background: var(--swatch); }

@media (max-width: 980px) {
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
@media (max-width: 760px) {
  .columns, .strip { grid-template-columns: minmax(0, 1fr); }
  .strip { gap: 6px; }
  main, body > header, body > footer { padding-left: 14px; padding-right: 14px; }
  body > header { padding-top: 24px; }
  .panel { padding: 14px; }
  .strips { padding-top: 0; padding-bottom: 0; }
  .tile { padding: 12px; }
  .tile .value { font-size: 22px; }
  h1 { font-size: 24px; }
  h2 { margin-top: 34px; }
  .lead { font-size: 15px; }
  .strip .empty { padding-left: 0; }
  .readout { left: 0; right: 0; text-align: right; }
  .facts, .facts tbody, .facts tr, .facts th, .facts td { display: block; width: auto; }
  .facts th { padding-bottom: 0; }
  .facts td { border-top: 0; padding-top: 0; }
  .facts tr + tr > th { margin-top: 4px; }
}
@media (max-width: 440px) {
  .tile .value { font-size: 19px; }
}
@media print { body { background: none; } .panel, .strip { break-inside: avoid; } }
`;
