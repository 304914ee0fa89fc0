import { parseInt32Array } from '../../base/arrays.js';
import type { BlockPins } from '../connector/connector.js';
import type { ViewOwner } from './connector-view.js';

/**
 * The `BlockPins` of a connector that protects blocks by pins.
 * @param owner the scheduler that the pins belong to
 */
export function makePins(owner: ViewOwner): BlockPins {
  const { state, gate, log } = owner;
  const { native } = state.core;
  const change = (blocks: unknown, by: 1 | -1): void => {
    gate.checkUsable();
    const ids = parseInt32Array('blocks', blocks);
    if (by > 0) native.pin(ids);
    else native.unpin(ids);
    state.pins.change(ids, by);
    state.blocksMoved = true;
    log?.pins(by > 0, ids);
    // Between two public calls nothing else writes the command to the log.
    if (!gate.isBusy) gate.change(() => owner.flushLog());
  };
  return { pin: (ids) => change(ids, 1), unpin: (ids) => change(ids, -1) };
}
