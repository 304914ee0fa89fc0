import { replay } from './driver.js';
import { findTraces } from './files.js';
import { ReferenceScheduler } from './reference/scheduler.js';
import { report } from './report.js';
import { readTrace } from './trace.js';

let c = 0,
  d = 0,
  s = 0;
for (const p of findTraces(process.argv.slice(2))) {
  const r = replay(readTrace(p), (o) => new ReferenceScheduler(o));
  console.log(report(r).join('\n'));
  c += r.comparisons;
  d += r.differences.length;
  s += r.steps;
}
console.log('total', s, c, d);
