import { readdirSync, readFileSync } from 'node:fs';

/** The processes that a process has started and that go on. Linux only. */
export function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) => {
    try {
      const text = readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim();
      return text === '' ? [] : text.split(' ').map(Number);
    } catch {
      // The thread has ended meanwhile.
      return [];
    }
  });
}

/** Whether a process goes on. One that has ended, and that nobody has waited for, does not. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
