/**
 * `blockstep/replay`: the recorded log of a scheduler, and how it is replayed.
 *
 * @module
 */
export type { ReplayResult } from './core/native/native.js';
export type { LoggedConnector, LogHeader } from './scheduler/log/log.js';
export { type LoggedRequest, type LogRecord, readLog } from './scheduler/log/log-reader.js';
export type { LogSink } from './scheduler/options/options.js';
export { replayCommands, replayInputs } from './scheduler/replay/log-replay.js';
