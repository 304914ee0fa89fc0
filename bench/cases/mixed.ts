// One whole step of a full engine: prefills beside decodes, ends, replacements.
import { type Effort, measure } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';
import { Mixed, SEQUENCES } from '../workloads/mixed.js';

export const MIXED_EFFORT: Effort = { samples: 6000, warmup: 2000 };

/** A step of a full engine in balance. The schedule half of the step is also given alone. */
export function benchMixed(effort: Effort): Row[] {
  const mixed = new Mixed();
  const halves = { schedule: 0, update: 0 };
  const step = measure({ before: () => mixed.refill(), run: () => mixed.step(halves) }, effort);
  const schedule = measure(
    {
      before: () => mixed.refill(),
      run: () => {
        mixed.step(halves);
        return halves.schedule;
      },
    },
    effort,
  );
  mixed.check();
  return [timeRow('mixed', 'step', step, SEQUENCES), timeRow('mixed', 'schedule half', schedule, SEQUENCES)];
}
