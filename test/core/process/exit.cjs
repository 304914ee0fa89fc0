// Ends in a given way (normally, `process.exit`, an uncaught error) with undisposed cores and
// pending operations.
'use strict';
// Ends in the way that the argument says, with undisposed cores and pending operations.
const { load, create, exercise } = require('./bare-core.cjs');

const [path, way] = process.argv.slice(2);
const addon = load(path);
globalThis.cores = [create(addon), create(addon)];
for (const core of globalThis.cores) exercise(core);
globalThis.cores[0].exchange[0] = 5;
process.on('exit', () => globalThis.cores[1].native.verify());
if (way === 'exit') process.exit(7);
if (way === 'throw') throw new Error('uncaught');
if (way === 'dispose-at-exit') process.on('exit', () => globalThis.cores[1].native.dispose());
