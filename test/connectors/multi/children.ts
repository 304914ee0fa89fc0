// Scripted children, and an engine over them.
import type { WorkerConnector } from '../../../src/connector.js';
import { MultiConnector, MultiWorker } from '../../../src/connectors/multi/index.js';
import type { EngineOptions, RequestStream } from '../../../src/index.js';
import { type Script, ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { ScriptedWorker } from '../../support/connector/scripted-worker.js';
import { EngineBench } from '../../support/engine-bench.js';

export interface Options {
  reporters?: readonly (readonly number[])[];
  protection?: 'own' | 'pin' | 'fence';
}

/** A child that follows a script, and declares reporters only if its options have them. */
export class Child extends ScriptedConnector {
  readonly seen: { method: string; params: unknown; tokens?: number }[] = [];
  wakes = false;
  readonly isAsking = new Set<string>();

  constructor(scripts: Record<string, Script> = {}, { reporters, protection }: Options = {}) {
    super(scripts, { ...(reporters && { reporters }), ...(protection && { protection }) });
    if (reporters === undefined) Object.assign(this, { reporters: undefined });
  }

  override getNumNewMatchedTokens(
    ...[request, local]: Parameters<ScriptedConnector['getNumNewMatchedTokens']>
  ) {
    this.seen.push({ method: 'match', params: request.transferParams });
    const match = super.getNumNewMatchedTokens(request, local);
    if (this.isAsking.has(request.id)) return { numTokens: null, async: false, wakes: this.wakes };
    return match;
  }

  override updateStateAfterAlloc(
    ...[request, lists, tokens]: Parameters<ScriptedConnector['updateStateAfterAlloc']>
  ) {
    this.seen.push({ method: 'alloc', params: request.transferParams, tokens });
    super.updateStateAfterAlloc(request, lists, tokens);
  }
}

/** An engine over several children, and scripted workers: one list for each rank. */
export class MultiBench extends EngineBench {
  readonly workers: readonly (readonly ScriptedWorker[])[];
  readonly multi: MultiConnector;

  constructor(children: readonly ScriptedConnector[], numRanks = 1, options: Partial<EngineOptions> = {}) {
    const workers = Array.from({ length: numRanks }, () => children.map(() => new ScriptedWorker()));
    const multi = new MultiConnector({ children, numRanks });
    const sides = workers.map(
      (each): WorkerConnector => new MultiWorker({ children: each }) as WorkerConnector,
    );
    super({ connector: multi, workers: sides, numRanks, ...options });
    this.workers = workers;
    this.multi = multi;
  }

  get anomalies(): Record<string, number> {
    return this.engine.stats().scheduler.anomalies;
  }

  status({ handle }: RequestStream): string | undefined {
    return this.engine.scheduler.getByHandle(handle)?.status;
  }
}
