import type { SchedulerConnector } from '../../scheduler/connector/connector.js';
import type { BlockLists, ConnectorPlan, KvView } from '../../scheduler/connector/kv-view.js';
import { PartialMetadata } from '../../scheduler/connector/partial-metadata.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import type { TransferWatch } from './transfer-watch.js';
import type { Diary } from './trouble.js';

/** The content of a borrowed list after the call: no block. */
const POISON = -1;

/** Decides by chance how a connector is treated. */
export interface Treatment {
  /** Whether a request is asked about once more than necessary. */
  asksTwice(): boolean;
  /**
   * Called with every mistake. A mistake must not be thrown where it is found, because the
   * scheduler would count it.
   */
  broke(what: string): void;
}

/**
 * The scheduler side of a connector, with an observer around it. Lists are lent for a call and
 * overwritten after it. Plans end with the call, and metadata is copied like a message to another
 * process. The observer sees every error of the connector.
 */
export function watchedConnector(
  inner: SchedulerConnector,
  watch: TransferWatch,
  diary: Diary,
  treatment: Treatment,
): SchedulerConnector {
  const lent: Int32Array[] = [];
  const plans: { readonly revoke: () => void }[] = [];
  const planBehind = new WeakMap<ConnectorPlan, ConnectorPlan>();
  const lend = (lists: BlockLists): BlockLists => {
    const copies = lists.map((list) => Int32Array.from(list));
    lent.push(...copies);
    return copies;
  };
  const lendPlan = (plan: ConnectorPlan): ConnectorPlan => {
    const { proxy, revoke } = Proxy.revocable(plan, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? (value as () => unknown).bind(target) : value;
      },
    });
    plans.push({ revoke });
    planBehind.set(proxy, plan);
    return proxy;
  };
  const call = <T>(method: string, about: ConnectorRequest | null, work: () => T): T => {
    const who = about === null ? '' : ` of ${about.id}`;
    try {
      const answer = work();
      if (isThenable(answer))
        treatment.broke(`${method}${who} answers a promise: an answer is wanted at once`);
      return answer;
    } catch (error) {
      treatment.broke(`${method}${who} throws ${error instanceof Error ? error.stack : String(error)}`);
      throw error;
    } finally {
      for (const list of lent.splice(0)) list.fill(POISON);
      for (const { revoke } of plans.splice(0)) revoke();
    }
  };
  /** Requests that were added and have not ended, by handle. */
  const known = new Set<number>();
  const connector: SchedulerConnector = {
    // A connector may refuse an engine here.
    bind: (view) => {
      watch.bind(view);
      inner.bind?.(lendingView(view, lend, (plan) => planBehind.get(plan) ?? plan));
    },
    bindPins: (pins) => call('bindPins', null, () => inner.bindPins?.(pins)),
    onNewRequest(request) {
      known.add(request.handle);
      call('onNewRequest', request, () => inner.onNewRequest?.(request));
    },
    getNumNewMatchedTokens(request, numLocalTokens) {
      const ask = () =>
        call('getNumNewMatchedTokens', request, () => inner.getNumNewMatchedTokens(request, numLocalTokens));
      if (treatment.asksTwice()) ask();
      const match = ask();
      watch.offered(request, numLocalTokens, match.async);
      if (match.numTokens !== 0) diary.note(`${request.id} is offered ${match.numTokens} tokens`);
      return match;
    },
    updateStateAfterAlloc(request, blocks, numExternalTokens) {
      if (numExternalTokens > 0) {
        watch.ordered(request, blocks, numExternalTokens);
        diary.note(`${request.id} loads ${numExternalTokens} tokens`);
      }
      call('updateStateAfterAlloc', request, () =>
        inner.updateStateAfterAlloc(request, lend(blocks), numExternalTokens),
      );
    },
    buildMetadata(plan) {
      watch.planned(plan.step);
      const answer = call('buildMetadata', null, () => inner.buildMetadata(lendPlan(plan)));
      return call('the metadata of a plan', null, () =>
        answer instanceof PartialMetadata
          ? new PartialMetadata(structuredClone(answer.metadata), answer.failedChildren, answer.cause)
          : structuredClone(answer),
      );
    },
    requestFinished(request, reason, handOver) {
      known.delete(request.handle);
      diary.note(`${request.id} ends: ${reason}`);
      return call('requestFinished', request, () =>
        inner.requestFinished(request, reason, { ...handOver, blocks: lend(handOver.blocks) }),
      );
    },
  };
  if (inner.protection !== undefined) Object.assign(connector, { protection: inner.protection });
  if (inner.reporters !== undefined) Object.assign(connector, { reporters: inner.reporters });
  if (inner.updateConnectorOutput !== undefined)
    connector.updateConnectorOutput = (output) =>
      call('updateConnectorOutput', null, () => inner.updateConnectorOutput?.(output));
  if (inner.requiresKvDelivery !== undefined)
    connector.requiresKvDelivery = (request) =>
      call('requiresKvDelivery', request, () => inner.requiresKvDelivery?.(request) === true);
  if (inner.requestRefused !== undefined)
    connector.requestRefused = (params) =>
      call('requestRefused', null, () => inner.requestRefused?.(structuredClone(params)));
  if (inner.cancelSending !== undefined)
    connector.cancelSending = (request) =>
      call('cancelSending', request, () => inner.cancelSending?.(request));
  if (inner.resetCache !== undefined)
    connector.resetCache = () => {
      const answer = call('resetCache', null, () => inner.resetCache?.());
      if (answer === true && watch.isCopying)
        treatment.broke('resetCache answers true while copies are under way: what they write is not reset');
      return answer;
    };
  if (inner.hasPendingWork !== undefined)
    connector.hasPendingWork = () => call('hasPendingWork', null, () => inner.hasPendingWork?.() === true);
  connector.shutdown = () => {
    if (known.size > 0) treatment.broke(`requests ${[...known]} were never finished`);
    call('shutdown', null, () => inner.shutdown?.());
    call('shutdown for the second time', null, () => inner.shutdown?.());
  };
  return connector;
}

/** A view whose lists are lent, and that knows the lent plans. */
function lendingView(
  view: KvView,
  lend: (lists: BlockLists) => BlockLists,
  behind: (plan: ConnectorPlan) => ConnectorPlan,
): KvView {
  return {
    blockSize: view.blockSize,
    numBlocks: view.numBlocks,
    hasHashes: view.hasHashes,
    hashSpace: view.hashSpace,
    numGroups: view.numGroups,
    groups: view.groups,
    alignment: view.alignment,
    layout: view.layout,
    acceptsLoads: view.acceptsLoads,
    reclaimMs: view.reclaimMs,
    neededPlaces: (group, numTokens) => view.neededPlaces(group, numTokens),
    tokens: (request) => view.tokens(request),
    blockHash: (request, index, group) => view.blockHash(request, index, group),
    numFullBlocks: (request, group) => view.numFullBlocks(request, group),
    blocks: (request) => lend(view.blocks(request)),
    readBlocks: (request, from, out, group) => view.readBlocks(request, from, out, group),
    newBlocks: (plan, entry) => lend(view.newBlocks(behind(plan), entry)),
    extent: (request) => view.extent(request),
    hold: (handle, kind, owner) => view.hold(handle, kind, owner),
    complete: (handle, kind, owner) => view.complete(handle, kind, owner),
    wake: (handle) => view.wake(handle),
    tellTier: (change, medium, hashes, group) => view.tellTier(change, medium, hashes, group),
  };
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
