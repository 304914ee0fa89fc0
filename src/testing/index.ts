// The exports of `blockstep/testing`.
export {
  type ConnectorCase,
  type ConnectorCaseOptions,
  connectorCases,
} from './connector-cases.js';
export { CaseError } from './watch/trouble.js';
export type { ConnectorUnderTest, ConnectorWorld, MakeConnector } from './world.js';
