/**
 * The page's style, in addition to the style of the reports, whose colours it uses. Block states
 * have their own colours.
 */
export const PAGE_STYLE: string = `
:root { --free: #e3e7ec; --cached: #9cc4f0; --used: #0b5fc0; --transfer: #d97706; --quarantined: #b3261e; --reserved: #8a94a0; --third: #3b7d3b; --good: #1d6f2b; }
@media (prefers-color-scheme: dark) {
  :root { --free: #232b35; --cached: #2c5688; --used: #62a8f5; --transfer: #f2a154; --quarantined: #ff6b5e; --reserved: #6b7682; --third: #86c987; --good: #7fd08a; }
}
[hidden] { display: none !important; }
html { scroll-padding-top: 52px; }
body > header { padding-top: 24px; }
nav { position: sticky; top: 0; z-index: 1; display: flex; gap: 4px; max-width: 1200px; margin: 8px auto 0; padding: 4px 16px; overflow: auto hidden; background: var(--page); }
nav a { padding: 8px; font-size: 14px; white-space: nowrap; }
.health { min-height: 1.5em; overflow-wrap: anywhere; }
.health b { color: var(--warning); }
.health span { margin-left: 8px; }
.health.good b { color: var(--good); }
.anomalies { margin: 12px 0 0; font-size: 14px; min-height: 1.5em; overflow-wrap: anywhere; max-width: none; }
.anomalies span { color: var(--muted); }
.anomalies .bad, .tile .bad { color: var(--warning); }
.tile .detail { min-height: 1.5em; overflow-wrap: anywhere; }
.tile .value { white-space: nowrap; }

button, input, textarea { font: inherit; color: var(--text); background: var(--page); border: 1px solid var(--axis); border-radius: 6px; padding: 6px 12px; min-height: 36px; }
button { cursor: pointer; min-width: 6em; }
button:disabled { cursor: default; color: var(--muted); border-color: var(--border); }
button:hover:enabled { border-color: var(--text); }
input, textarea { width: 100%; display: block; margin: 4px 0 10px; }
input[type=number] { max-width: 12em; }
textarea { resize: vertical; }
label { font-size: 14px; color: var(--muted); }
:focus-visible { outline: 3px solid var(--virtual); outline-offset: 2px; }
.buttons { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 8px 0 0; }
.note { font-size: 13px; color: var(--muted); min-height: 1.5em; }
#key-form { margin-top: 14px; max-width: 32em; }
#key-note { color: var(--warning); min-height: 1.5em; margin-bottom: 0; }

.live .plot { height: 150px; margin: 10px 0 0 52px; border-bottom: 1px solid var(--axis); }
.live svg { display: block; height: 150px; overflow: visible; }
.live path { fill: none; stroke-width: 1.6px; vector-effect: non-scaling-stroke; }
.live figcaption { display: flex; flex-wrap: wrap; gap: 0 14px; min-height: 1.5em; }
.ticks span { position: absolute; left: -52px; right: 0; border-bottom: 1px solid var(--border); font-size: 12px; line-height: 14px; height: 0; color: var(--muted); font-variant-numeric: tabular-nums; white-space: nowrap; text-indent: 0; pointer-events: none; }
.ticks span:first-child { border-color: transparent; }
.axis { display: flex; justify-content: space-between; margin: 2px 0 0 52px; font-size: 12px; color: var(--muted); max-width: none; }
.live output { color: var(--text); font-variant-numeric: tabular-nums; display: inline-block; min-width: 3.4em; }
.line.n0::before, path.n0 { stroke: var(--virtual); border-color: var(--virtual); }
.line.n1::before, path.n1 { stroke: var(--measured); border-color: var(--measured); }
.line.n2::before, path.n2 { stroke: var(--third); border-color: var(--third); }

.legend { list-style: none; display: grid; grid-template-columns: repeat(auto-fill, minmax(158px, 1fr)); gap: 4px 12px; padding: 0; margin: 0 0 12px; font-size: 13px; }
.legend output { font-variant-numeric: tabular-nums; font-weight: 600; display: inline-block; min-width: 3.5em; }
.groups { list-style: none; padding: 0; margin: 0 0 12px; font-size: 13px; }
.groups li { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center; margin: 0 0 4px; font-variant-numeric: tabular-nums; }
.groups button { min-height: 28px; padding: 2px 10px; }
.groups button[aria-pressed=true] { border-color: var(--virtual); box-shadow: inset 0 -3px 0 var(--virtual); }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; vertical-align: -1px; }
.swatch.free { background: var(--free); } .swatch.cached { background: var(--cached); } .swatch.used { background: var(--used); }
.swatch.transfer { background: var(--transfer); } .swatch.quarantined { background: var(--quarantined); } .swatch.reserved { background: var(--reserved); }
#map-box { position: relative; min-height: 120px; max-height: 384px; overflow: hidden auto; padding: 4px; margin: 0 -4px; }
#map { display: block; cursor: crosshair; }
#map-cursor { position: absolute; pointer-events: none; border: 2px solid var(--text); box-shadow: 0 0 0 1px var(--panel); border-radius: 2px; }
#map-readout { margin: 10px 0 0; font-size: 14px; min-height: 3em; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; max-width: none; }

#list { list-style: none; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); gap: 0 16px; align-content: start; margin: 0; padding: 2px; height: 272px; overflow: hidden auto; font-size: 13px; border: 1px solid var(--border); border-radius: 6px; }
#list:empty::after { content: "A request that is under way stands here, with what it waits for."; display: block; grid-column: 1 / -1; padding: 8px; color: var(--muted); }
#list li { display: flex; justify-content: space-between; gap: 12px; padding: 4px 8px; border-radius: 4px; cursor: pointer; border: 1px solid transparent; }
#list li span { font-variant-numeric: tabular-nums; }
#list li span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-width: 0; }
#list li span:last-child { color: var(--muted); white-space: nowrap; }
#list li.active { border-color: var(--axis); }
#list:focus-visible li.active { border-color: var(--virtual); }
#list li[aria-selected=true] { border-color: var(--virtual); box-shadow: inset 3px 0 0 var(--virtual); }
#list-panel:has(+ #detail[hidden]) { grid-column: 1 / -1; }
#filter { max-width: 36em; }
@media (min-width: 1000px) { #list-panel:has(+ #detail[hidden]) #list { height: 158px; } }
#detail-id { overflow-wrap: anywhere; }
#detail-explain { min-height: 6em; overflow-wrap: anywhere; font-size: 14px; }
.pairs { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 4px 16px; margin: 0; font-size: 13px; min-height: 11em; align-content: start; }
.pairs div { display: flex; justify-content: space-between; gap: 8px; border-bottom: 1px solid var(--border); }
.pairs dt { color: var(--muted); } .pairs dd { margin: 0; font-variant-numeric: tabular-nums; }
#answer:empty { display: none; }
#answer { margin: 12px 0 0; height: 150px; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.5 ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; background: var(--page); border: 1px solid var(--border); border-radius: 6px; padding: 8px 10px; }
#start-note { color: var(--muted); font-size: 14px; overflow-wrap: anywhere; }
@media (max-width: 760px) { .pairs { grid-template-columns: minmax(0, 1fr); } .tile .value { font-size: 20px; } }
@media (max-width: 440px) { .tile .value { font-size: 18px; } .tile .detail { min-height: 3em; } .note { min-height: 3em; } .legend { grid-template-columns: minmax(0, 1fr); } }
`;
