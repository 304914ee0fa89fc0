import type { Difference } from './compare.js';
import type { ReplayResult } from './driver.js';
import type { TraceStep } from './trace.js';

const LINE = 600;

function json(value: unknown): string {
  const line = JSON.stringify(value) ?? 'undefined';
  return line.length > LINE ? `${line.slice(0, LINE)}... (${line.length} characters)` : line;
}

/** The decisions of a recorded step, on one line. */
export function summary(step: TraceStep): string {
  const { sched, upd } = step;
  const parts: string[] = [];
  if (sched === null) parts.push('no schedule()');
  else {
    parts.push(`${sched.total} tokens for ${sched.tokens.length}`);
    if (sched.new.length > 0) parts.push(`new ${sched.new.map(([id]) => id).join(' ')}`);
    if (sched.resumed.length > 0) parts.push(`resumed ${sched.resumed.map(([id]) => id).join(' ')}`);
    if (sched.preempted.length > 0) parts.push(`preempted ${sched.preempted.join(' ')}`);
    if (sched.finished.length > 0) parts.push(`finished ${sched.finished.join(' ')}`);
    parts.push(`${sched.free} free`);
  }
  if (upd === null) parts.push('no update()');
  else {
    const ended = upd.out.filter((row) => row[2] !== null).map((row) => `${row[0]} (${row[2]})`);
    parts.push(`update of step ${upd.for}: ${upd.out.length} rows, ${upd.free} free, ${upd.cached} cached`);
    if (ended.length > 0) parts.push(`ended ${ended.join(' ')}`);
    parts.push(`run ${upd.run.length} wait ${upd.wait.length} skip ${upd.skip.length}`);
  }
  return parts.join(', ');
}

function context(result: ReplayResult, first: Difference): string[] {
  const lines = [
    `  first at ${first.path}`,
    `    expected ${json(first.expected)}`,
    `    got      ${json(first.got)}`,
  ];
  const match = /^steps\[(\d+)\]/.exec(first.path);
  if (!match) return lines;
  const at = Number(match[1]);
  const { steps } = result.trace;
  if (at > 0) lines.push(`    step ${at - 1}   ${summary(steps[at - 1])}`);
  const { step: number, events, mid, sched, upd } = steps[at];
  lines.push(`    step ${number}   ${summary(steps[at])}`, `    events   ${json(events)}`);
  if (mid) lines.push(`    mid      ${json(mid)}`);
  lines.push(`    recorded sched ${json(sched)}`, `    recorded upd   ${json(upd)}`);
  if (result.scene?.step === number) {
    lines.push(
      `    got sched      ${json(result.scene.sched)}`,
      `    got upd        ${json(result.scene.upd)}`,
    );
  }
  if (result.error instanceof Error && result.error.stack) lines.push(`    ${result.error.stack}`);
  return lines;
}

/** The lines that tell how one trace went. */
export function report(result: ReplayResult): string[] {
  const { trace, unsupported, steps, comparisons, differences } = result;
  if (unsupported.length > 0) return [`${trace.name}: unsupported: ${unsupported.join(', ')}`];
  const counts = `${steps} steps, ${comparisons} comparisons, ${differences.length} differences`;
  const lines = [`${trace.name}: ${counts}`];
  if (steps < trace.steps.length && steps > 0)
    lines.push(`  ended in step ${steps} of ${trace.steps.length}`);
  return differences.length === 0 ? lines : [...lines, ...context(result, differences[0])];
}
