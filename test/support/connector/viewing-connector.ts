import type { BlockLists, Match } from '../../../src/connector.js';
import type { Plan, Request } from '../../../src/index.js';
import { type Script, ScriptedConnector } from './scripted-connector.js';

/** A scripted connector that does what a test tells it to inside its methods. */
export class ViewingConnector extends ScriptedConnector {
  /** Runs inside `buildMetadata`. */
  onMetadata: (plan: Plan) => unknown = () => undefined;
  onAlloc: (request: Request, blocks: BlockLists) => void = () => {};
  /** Answers `getNumNewMatchedTokens` while it is not null. */
  match: Match | null = null;

  constructor(
    scripts: Record<string, Script> = {},
    options?: ConstructorParameters<typeof ScriptedConnector>[1],
  ) {
    super(scripts, options);
  }

  override getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    const scripted = super.getNumNewMatchedTokens(request, numLocalTokens);
    return this.match ?? scripted;
  }

  override updateStateAfterAlloc(request: Request, blocks: BlockLists, numExternalTokens: number): void {
    super.updateStateAfterAlloc(request, blocks, numExternalTokens);
    this.onAlloc(request, blocks);
  }

  override buildMetadata(plan: Plan): unknown {
    return this.onMetadata(plan) ?? super.buildMetadata(plan);
  }
}
