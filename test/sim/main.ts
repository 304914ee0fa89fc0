import { Violation } from './audit/facts.js';
import { drawSetup } from './setup.js';
import { Simulation } from './simulation.js';

const { values } = (await import('node:util')).parseArgs({
  options: {
    seeds: { type: 'string', default: '20' },
    first: { type: 'string', default: '0' },
    steps: { type: 'string', default: '2000' }, without: { type: 'string', default: '' },
  },
});
const first = Number(values.first);
const begin = performance.now();
let bad = 0;
const kinds = new Map<string, number[]>();
for (let seed = first; seed < first + Number(values.seeds); seed++) {
  const setup = drawSetup(seed);
  for (const f of values.without.split(',')) if (f in setup.faults) setup.faults[f as 'late'] = 0;
  if (values.without.includes('fence')) setup.workload.weights.fence = 0;
  const simulation = new Simulation(setup);
  try {
    simulation.run(Number(values.steps));
  } catch (error) {
    bad++;
    const what = error instanceof Violation ? error.message : ((error as Error).stack ?? '');
    const key = what.replace(/\d+/g, 'N').slice(0, 90);
    kinds.set(key, [...(kinds.get(key) ?? []), seed]);
    if (Number(values.seeds) === 1) {
      console.log(JSON.stringify(simulation.setup));
      console.log(simulation.world.journal.join('\n'));
    }
    if ((kinds.get(key) ?? []).length <= 1) console.log(`seed ${seed} step ${simulation.step}: ${what}`);
  }
  simulation.world.dispose();
}
console.log(`${bad} bad; ${Math.round(performance.now() - begin)} ms`);
for (const [k, v] of [...kinds].sort((a, b) => b[1].length - a[1].length))
  console.log(v.length, k, v.slice(0, 6).join(','));
