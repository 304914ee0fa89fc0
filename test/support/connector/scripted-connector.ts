import type {
  BlockLists,
  BlockPins,
  ConnectorOutput,
  Finished,
  HandOver,
  KvView,
  Match,
  Protection,
  SchedulerConnector,
} from '../../../src/connector.js';
import type { Plan, Request } from '../../../src/index.js';
import type { FinishReason } from '../../../src/scheduler/request/status.js';

/**
 * The behaviour of a scripted connector for one request, by external id; everything else is 0 or
 * false.
 */
export interface Script {
  /** Tokens that it has of the request, from the first on. */
  ext?: number;
  async?: boolean;
  /** Which child loads. */
  child?: number;
  /** Offers its tokens once only. */
  oneshot?: boolean;
  /** Answers null so many times first. */
  defer?: number;
  /** The connector itself announces when it is to be asked again. */
  wakes?: boolean;
  /** Wants the blocks of a request that ended; of one that was aborted. */
  delayFree?: boolean;
  delayAbort?: boolean;
  /** Answers so even if there are none. */
  delayEmpty?: boolean;
  /** The children that report the delivery. */
  children?: number[];
  delivers?: boolean;
}

/**
 * A scheduler-side connector that does what it is told for each request and writes down every call, as
 * `method id arguments`. Methods named in `throwing` throw instead.
 */
export class ScriptedConnector implements SchedulerConnector {
  readonly calls: string[] = [];
  readonly throwing = new Set<string>();
  /** Called inside each method, before it answers. */
  during: (method: string, request: Request | null) => void = () => {};
  readonly protection: Protection | readonly Protection[];
  readonly reporters: readonly (readonly number[])[];
  readonly outputs: ConnectorOutput[] = [];
  /** The hand-overs of requests that ended, as the connector received them. */
  readonly handOvers: { id: string; handOver: HandOver }[] = [];
  pins: BlockPins | null = null;
  view!: KvView;
  pending = false;
  tier: boolean | undefined = undefined;
  readonly #scripts: Record<string, Script>;
  readonly #loaded = new Set<number>();
  readonly #deferred = new Map<number, number>();

  constructor(
    scripts: Record<string, Script> = {},
    options: {
      protection?: Protection | readonly Protection[];
      reporters?: readonly (readonly number[])[];
    } = {},
  ) {
    this.#scripts = scripts;
    this.protection = options.protection ?? 'own';
    this.reporters = options.reporters ?? [[0]];
  }

  bind(view: KvView): void {
    this.view = view;
  }

  bindPins(pins: BlockPins): void {
    this.pins = pins;
  }

  onNewRequest(request: Request): void {
    this.#called('new', request, '');
  }

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    this.#called('match', request, numLocalTokens);
    const {
      ext = 0,
      async: isAsync = false,
      child = 0,
      oneshot,
      defer = 0,
      wakes = false,
    } = this.#script(request);
    const deferred = this.#deferred.get(request.handle) ?? 0;
    if (deferred < defer) {
      this.#deferred.set(request.handle, deferred + 1);
      return { numTokens: null, async: false, wakes };
    }
    const spent = oneshot === true && this.#loaded.has(request.handle);
    const numTokens = spent ? 0 : Math.max(0, ext - numLocalTokens);
    return { numTokens, async: numTokens > 0 && isAsync, child };
  }

  updateStateAfterAlloc(request: Request, [blocks]: BlockLists, numExternalTokens: number): void {
    this.#called('alloc', request, `${numExternalTokens} of ${blocks.length}`);
    if (numExternalTokens > 0) this.#loaded.add(request.handle);
  }

  buildMetadata(plan: Plan): unknown {
    this.#called('metadata', null, '');
    return { step: plan.step };
  }

  updateConnectorOutput(output: ConnectorOutput): void {
    this.#called('output', null, '');
    this.outputs.push(output);
  }

  requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished {
    this.handOvers.push({ id: request.id, handOver });
    const [blocks] = handOver.blocks;
    this.#called('finished', request, `${reason} ${blocks.length}`);
    const { delayFree = false, delayAbort = false, delayEmpty = false, children } = this.#script(request);
    const delay = (blocks.length > 0 || delayEmpty) && (reason === 'abort' ? delayAbort : delayFree);
    const params = delay ? { transferParams: { remote: request.id } } : {};
    return { delayFree: delay, ...(children && { children }), ...params };
  }

  requiresKvDelivery(request: Request): boolean {
    return this.#script(request).delivers === true;
  }

  cancelSending(request: Request): void {
    this.#called('cancel', request, '');
  }

  resetCache(): boolean | undefined {
    this.#called('reset', null, '');
    return this.tier;
  }

  hasPendingWork(): boolean {
    return this.pending;
  }

  shutdown(): void {
    this.#called('shutdown', null, '');
  }

  /** The calls so far that are about requests, and forgets them. */
  drain(): string[] {
    const about = this.calls.filter((call) => !/^(metadata|output)/.test(call));
    this.calls.length = 0;
    return about;
  }

  #script(request: Request): Script {
    return this.#scripts[request.id] ?? {};
  }

  #called(method: string, request: Request | null, what: string | number): void {
    this.calls.push(
      [method, request?.id, what].filter((word) => word !== undefined && word !== '').join(' '),
    );
    this.during(method, request);
    if (this.throwing.has(method)) throw new Error(`planted in ${method}`);
  }
}
