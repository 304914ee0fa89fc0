// A process that polls the health of the server.
import { watchHealth } from './siege.js';

// A process of its own, so that what the siege takes of its processor is not measured: asks until its standard input ends.
const [url = ''] = process.argv.slice(2);
let isOver = false;
process.stdin.resume().on('end', () => {
  isOver = true;
});
const times = await watchHealth(url, () => isOver);
process.stdout.write(JSON.stringify(times));
