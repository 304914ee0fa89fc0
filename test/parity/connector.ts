// The connector of a trace: answers from the `kv` parameters of the requests, and writes down each
// call.
import type { ConnectorOutput, Finished, Match } from '../../src/scheduler/connector/connector.js';
import type { FinishReason } from '../../src/scheduler/request/status.js';
import { type SubjectConnector, type Told, vllmStatus } from './subject.js';
import type { ConnectorCall, KvParameters, KvReport } from './trace.js';

/** The connector's record of one request. */
interface Transfer {
  readonly parameters: KvParameters;
  handle: number;
  /** The connector was to load something at least once: a `oneshot` loads nothing again. */
  loaded: boolean;
  /** A load is in flight, so the end of the request must wait for it and not for a send. */
  receives: boolean;
  /** Lookups that it still answers with "ask again". */
  deferrals: number;
}

/**
 * The scheduler side of the connector that a trace was recorded with: its answers follow from the
 * parameters of the requests alone. The connector records its calls; its worker side is the trace
 * itself.
 */
export class TraceConnector implements SubjectConnector {
  readonly #transfers = new Map<string, Transfer>();
  #calls: ConnectorCall[] = [];

  /** @param hasGroups whether the trace knows KV cache groups, of each of which it then counts the blocks */
  constructor(private readonly hasGroups = false) {}

  /** A request with these parameters is about to be added. */
  expect(id: string, parameters: KvParameters | null): void {
    const { defer = 0 } = parameters ?? {};
    this.#transfers.set(id, {
      parameters: parameters ?? {},
      handle: 0,
      loaded: false,
      receives: false,
      deferrals: defer,
    });
  }

  /** The calls since the last time, oldest first. */
  drainCalls(): ConnectorCall[] {
    const calls = this.#calls;
    this.#calls = [];
    return calls;
  }

  /** The output of the workers that a trace names. Throws for a request that the scheduler never announced. */
  outputOf({ recv, send, invalid }: KvReport): ConnectorOutput {
    const report = (id: string) => {
      const handle = this.#transfers.get(id)?.handle;
      if (!handle) throw new Error(`onNewRequest was not called for ${id}`);
      return { handle };
    };
    return {
      finishedReceiving: recv.map(report),
      finishedSending: send.map(report),
      ...(invalid ? { invalidBlocks: invalid.map((block) => ({ block })) } : {}),
    };
  }

  onNewRequest({ id, handle }: Told): void {
    this.#of(id).handle = handle;
  }

  getNumNewMatchedTokens({ id }: Told, numLocalTokens: number): Match {
    const transfer = this.#of(id);
    const { ext = 0, oneshot, async } = transfer.parameters;
    if (transfer.deferrals > 0) {
      transfer.deferrals--;
      this.#calls.push(['match', id, numLocalTokens, null, 0]);
      return { numTokens: null, async: false };
    }
    const numTokens = oneshot && transfer.loaded ? 0 : Math.max(0, ext - numLocalTokens);
    const isAsync = numTokens > 0 && async === 1;
    this.#calls.push(['match', id, numLocalTokens, numTokens, isAsync ? 1 : 0]);
    return { numTokens, async: isAsync };
  }

  updateStateAfterAlloc({ id }: Told, rows: readonly Int32Array[], numExternalTokens: number): void {
    const lengths = rows.map((row) => row.length);
    this.#calls.push(['alloc', id, numExternalTokens, this.hasGroups ? lengths : lengths[0]]);
    if (numExternalTokens === 0) return;
    const transfer = this.#of(id);
    transfer.loaded = true;
    transfer.receives = transfer.parameters.async === 1;
  }

  buildMetadata(): null {
    return null;
  }

  updateConnectorOutput({ finishedReceiving = [] }: ConnectorOutput): void {
    const received = new Set(finishedReceiving.map(({ handle }) => handle));
    for (const transfer of this.#transfers.values()) {
      if (received.has(transfer.handle)) transfer.receives = false;
    }
  }

  requestFinished(
    request: Told,
    _reason: FinishReason,
    { blocks: rows }: { readonly blocks: readonly Int32Array[] },
  ): Finished {
    const { id } = request;
    const status = vllmStatus(request);
    const { parameters, receives } = this.#of(id);
    const wants = status === 'FINISHED_ABORTED' ? parameters.delay_abort : parameters.delay_free;
    const lengths = rows.map((row) => row.length);
    const delayFree = lengths.some((length) => length > 0) && !receives && wants === 1;
    const delay = delayFree ? 1 : 0;
    if (this.hasGroups) {
      const held = rows.map((row) => row.filter((block) => block !== 0).length);
      this.#calls.push(['finished', id, status, delay, lengths, held]);
    } else this.#calls.push(['finished', id, status, delay, lengths[0]]);
    return delayFree ? { delayFree, transferParams: { of: id } } : { delayFree };
  }

  #of(id: string): Transfer {
    const transfer = this.#transfers.get(id);
    if (!transfer) throw new Error(`the connector was not told of ${id}`);
    return transfer;
  }
}
