import { spawn } from 'node:child_process';
import { scriptArguments } from '../../base/script-file.js';
import { removeFile } from './embedded-file.js';

/** A check that takes longer says nothing. Another process may keep the file locked. */
const CHECK_MS = 10_000;

/** With what the checking process ends. */
export const CheckEnd = { good: 0, damaged: 3, unknown: 4 } as const;

/** How a checking process ended. */
interface Checked {
  readonly code: number | null;
  /** The signal that ended it; null if none did. */
  readonly signal: NodeJS.Signals | null;
  /** The end of what it said. */
  readonly said: string;
}

/**
 * Whether a file of LMDB can be used, which is made if there is none. A process of its own opens it, reads every page of the
 * file's trees, and writes. LMDB ends the process that meets some kinds of damage, such as a file that was cut off; and lmdb 3.5.6
 * frees memory twice when an opening fails, whatever the reason, which may end the process too.
 * @param mapBytes most bytes that the file may have
 * @returns true if it can be used; false if it is damaged, or is no file of LMDB
 * @throws if the file cannot be judged or made: there is no access, no room, or it stays locked
 */
export async function checkFile(path: string, mapBytes: number): Promise<boolean> {
  const checked = await check(path, mapBytes);
  if (checked.code === CheckEnd.good) return true;
  if (checked.code === CheckEnd.damaged) return false;
  if (isCrash(checked) && (await canMake(`${path}-trial`, mapBytes))) return false;
  const { said, signal, code } = checked;
  throw new Error(`${path} could not be opened: ${said.trim() || signal || `exit status ${code}`}`);
}

/** Whether another file can be made there: then a crash is the fault of the file that was checked. */
async function canMake(path: string, mapBytes: number): Promise<boolean> {
  try {
    return (await check(path, mapBytes)).code === CheckEnd.good;
  } finally {
    removeFile(path);
  }
}

/** Whether the process ended by itself, and by a signal. */
function isCrash({ signal }: Checked): boolean {
  return signal !== null && signal !== 'SIGKILL' && signal !== 'SIGTERM' && signal !== 'SIGINT';
}

function check(path: string, mapBytes: number): Promise<Checked> {
  const script = scriptArguments(import.meta.url, 'file-check-main');
  const child = spawn(process.execPath, [...script, path, `${mapBytes}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: CHECK_MS,
    killSignal: 'SIGKILL',
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-300);
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject).on('close', (code, signal) => resolve({ code, signal, said }));
  });
}
