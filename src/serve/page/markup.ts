// The HTML of the page.
import { type Html, html } from '../../report/markup/html.js';

/** A figure of the page. The script fills in its value and its detail line. */
function tile(id: string, label: string): Html {
  return html`<div class="tile"><dt>${label}</dt><dd class="value" id="${id}">–</dd><dd class="detail" id="${id}-detail">–</dd></div>
`;
}

/** A chart of the last minutes. Each line has a name and a colour of the palette. */
function chart(id: string, title: string, unit: string, lines: readonly string[]): Html {
  const keys = lines.map(
    (line, i) => html`<span class="line n${i}">${line} <output id="${id}-${i}">–</output></span> `,
  );
  return html`<figure class="panel live">
<header><h3 id="${id}-title">${title}</h3><span class="unit">${unit}</span></header>
<figcaption>${keys}</figcaption>
<div class="plot"><svg id="${id}" class="chart" role="img" aria-labelledby="${id}-title" preserveAspectRatio="none"></svg><div class="ticks" id="${id}-ticks" aria-hidden="true"></div></div>
<p class="axis"><span id="${id}-start">–</span><span>now</span></p>
</figure>
`;
}

/** A block state in the legend of the map. */
function state(name: string, label: string): Html {
  return html`<li><i class="swatch ${name}"></i>${label} <output id="count-${name}">–</output></li>
`;
}

/**
 * The document. The script finds its elements by their ids.
 * @param control whether the page has controls; they are hidden if not
 */
export function renderBody(style: Html, script: Html, control: boolean): Html {
  const hidden = control ? '' : html` hidden`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>blockstep</title>
${style}
</head>
<body>
<header>
<p class="brand">blockstep</p>
<h1 id="model">…</h1>
<p class="health" id="health" role="status"><b id="health-word">connecting</b><span id="health-reasons" hidden></span></p>
<p class="buttons" id="resume-box" hidden><button type="button" id="resume">Resume</button></p>
<noscript><p class="warning">This page needs JavaScript.</p></noscript>
<form id="key-form" class="panel" hidden>
<label for="key">This server needs a key</label>
<input id="key" type="password" autocomplete="off" required>
<button type="submit">Use it</button>
<p id="key-note" role="alert"></p>
</form>
</header>
<nav aria-label="Parts of the page"><a href="#figures">Figures</a><a href="#time-title">Minutes</a><a href="#map-title">Blocks</a><a href="#list-title"${hidden}>Requests</a><a href="#start-title"${hidden}>Start</a></nav>
<main>
<section aria-label="Figures" id="figures">
<dl class="tiles">
${tile('step', 'Step latency, median of 10 s')}
${tile('tokens', 'Generated tokens')}
${tile('running', 'Running requests')}
${tile('waiting', 'Waiting requests')}
${tile('hits', 'Prefix hit rate of a minute')}
${tile('kv', 'KV usage')}
${tile('loop', 'Event-loop delay')}
${tile('transfers', 'Transfers under way')}
</dl>
<p class="anomalies"><b>Anomalies</b> <span id="anomalies">–</span></p>
</section>
<section aria-labelledby="time-title">
<h2 id="time-title">The last minutes</h2>
<div class="columns">
${chart('latency', 'Step latency', 'ms', ['p50', 'p99'])}
${chart('rate', 'Generated tokens', 'a second', ['tokens'])}
${chart('requests', 'Requests', '', ['running', 'waiting', 'loading'])}
${chart('usage', 'KV usage', '% of the blocks', ['in use'])}
</div>
</section>
<section aria-labelledby="map-title">
<h2 id="map-title">KV blocks</h2>
<p class="intro" id="map-help">Every block is a cell. Point at one, or move with the arrow keys; a click or Enter shows the request that holds it, Escape shows all blocks alike.</p>
<div class="panel">
<ul class="legend">
${state('free', 'free')}
${state('cached', 'cached, free')}
${state('used', 'in use')}
${state('transfer', 'under transfer')}
${state('quarantined', 'quarantined')}
${state('reserved', 'reserved')}
</ul>
<ul class="groups" id="groups" aria-label="KV cache groups" hidden></ul>
<div id="map-box"><canvas id="map" tabindex="0" role="application" aria-label="KV block map" aria-describedby="map-help"></canvas><div id="map-cursor" hidden></div></div>
<p id="map-readout" role="status">No block is pointed at.</p>
</div>
</section>
<section aria-labelledby="list-title"${hidden}>
<h2 id="list-title">Requests</h2>
<div class="columns">
<div class="panel" id="list-panel">
<label for="filter">Filter by id</label>
<input id="filter" type="search" autocomplete="off" spellcheck="false" maxlength="300">
<p id="list-note" class="note" role="status">–</p>
<ul id="list" role="listbox" tabindex="0" aria-labelledby="list-title"></ul>
<div class="buttons"><button type="button" id="pause" disabled>Pause all…</button>
<span id="pause-question" hidden><b>Pause the requests of everybody?</b> <button type="button" id="pause-yes">Pause them</button> <button type="button" id="pause-no">Cancel</button></span></div>
</div>
<div class="panel" id="detail" aria-live="off" hidden>
<h3 id="detail-id">No request is chosen</h3>
<p id="detail-explain">Choose one in the list, or a block that it holds.</p>
<dl class="pairs" id="detail-facts"></dl>
<p class="buttons"><button type="button" id="abort" disabled>Abort it</button> <button type="button" id="forget" disabled>Show all blocks</button></p>
</div>
</div>
</section>
<section aria-labelledby="start-title"${hidden}>
<h2 id="start-title">Start a request</h2>
<form id="start-form" class="panel">
<label for="prompt">Prompt</label>
<textarea id="prompt" rows="3" required spellcheck="false">The quick brown fox jumps over the lazy dog. The quick</textarea>
<label for="max-tokens">Most tokens of the answer</label>
<input id="max-tokens" type="number" min="1" value="64" required>
<p class="buttons"><button type="submit" id="start">Start</button> <button type="button" id="stop" disabled>Abort</button> <span id="start-note" role="status"></span></p>
<pre id="answer" tabindex="0" aria-label="Answer"></pre>
</form>
</section>
</main>
<footer><p>blockstep <span id="version"></span>. Figures come twice a second while this page is seen, the map once a second.</p></footer>
${script}
</body>
</html>
`;
}
