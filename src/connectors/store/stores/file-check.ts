import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { scriptArguments } from '../../base/script-file.js';

/** A check that takes longer says nothing. Another process may keep the file locked. */
const CHECK_MS = 10_000;

/** With what the checking process ends. */
export const CheckEnd = { good: 0, damaged: 3, unknown: 4 } as const;

/**
 * Whether a file of LMDB can be used. A process of its own reads every page of the file's trees, and writes: LMDB ends the
 * process that meets some kinds of damage, such as a file that was cut off.
 * @returns true if it can be used, or there is none; false if it is damaged, or is no file of LMDB
 * @throws if the file cannot be judged: there is no access, or it stays locked
 */
export async function checkFile(path: string): Promise<boolean> {
  if (!existsSync(path)) return true;
  const child = spawn(process.execPath, [...scriptArguments(import.meta.url, 'file-check-main'), path], {
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: CHECK_MS,
    killSignal: 'SIGKILL',
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-300);
  });
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.on('error', reject).on('close', (...end) => resolve(end));
  });
  if (code === CheckEnd.good) return true;
  const isKilled = signal === 'SIGKILL' || signal === 'SIGTERM' || signal === 'SIGINT';
  if (code === CheckEnd.damaged || (signal !== null && !isKilled)) return false;
  throw new Error(`${path} could not be checked: ${said.trim() || signal || `exit status ${code}`}`);
}
