// A process that computes random attentions by one kernel and by llama.cpp's own, since a process has one kernel: trials.mjs OPTIONS, in JSON.
// It prints { attention, reason, results }.
import { createRequire } from 'node:module';

const { addon: path, files, kernel, trials } = JSON.parse(process.argv[2]);
const addon = createRequire(import.meta.url)(path);
const { attention, attentionReason } = addon.load({ ...files, attention: kernel });
const results = attention === 'llama' ? [] : trials.map((trial) => addon.tryAttention(trial));
console.log(JSON.stringify({ attention, reason: attentionReason, results }));
