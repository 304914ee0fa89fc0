import type { ConnectorRequest, Finished, Match, SchedulerConnector } from '../../src/connector.js';

/** Prompt of a request whose transfer is in flight. */
export const TRANSFERRED = 512;

/** A connector that loads requests named `load-…` and sends requests named `send-…`. No report of either ever comes. */
export class EndlessConnector implements SchedulerConnector {
  getNumNewMatchedTokens({ id, numTokens }: ConnectorRequest, numLocalTokens: number): Match {
    return id.startsWith('load-')
      ? { numTokens: numTokens - numLocalTokens, async: true }
      : { numTokens: 0, async: false };
  }

  updateStateAfterAlloc(): void {}

  buildMetadata(): null {
    return null;
  }

  requestFinished({ id }: ConnectorRequest): Finished {
    return { delayFree: id.startsWith('send-') };
  }
}
