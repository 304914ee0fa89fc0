// A thread that runs the tasks of a sweep.
import { parentPort, workerData } from 'node:worker_threads';
import { BlockstepError } from '../../base/errors.js';
import { type Shared, type Task, TaskRunner } from './task.js';

/** A worker's answer to a task. */
export type Answer =
  | { readonly result: ReturnType<TaskRunner['run']> }
  | { readonly code: string | null; readonly message: string };

const runner = new TaskRunner(workerData as Shared);

parentPort?.on('message', (task: Task) => {
  let answer: Answer;
  try {
    answer = { result: runner.run(task) };
  } catch (error) {
    const code = error instanceof BlockstepError ? error.code : null;
    answer = { code, message: error instanceof Error ? error.message : String(error) };
  }
  parentPort?.postMessage(answer);
});
