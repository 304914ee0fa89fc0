import { BlockstepError, show } from '../../base/errors.js';
import type { SchedulerConnector } from '../connector/connector.js';
import type { ConnectorAnswers, ConnectorQuestion } from '../connector/connector-answers.js';
import type { OptionalMethod } from '../connector/connector-methods.js';
import { PartialMetadata } from '../connector/partial-metadata.js';
import type { LoggedConnector } from '../log/log.js';
import type { ConnectorRequest } from '../request/connector-request.js';
import type { RecordedAnswers } from './recorded-answers.js';

/**
 * A connector that gives its recorded answers, throws where the recorded answer was bad, and
 * repeats the recorded actions. Methods that influence no decision are not recorded:
 * `hasPendingWork` is always false.
 * @param header the recorded facts about the connector
 * @throws ERR_BLOCKSTEP_BAD_LOG if the header describes an impossible connector
 */
export function recordedConnector(header: LoggedConnector, answers: RecordedAnswers): SchedulerConnector {
  const ask = <Q extends ConnectorQuestion>(
    request: ConnectorRequest | null,
    question: Q,
  ): ConnectorAnswers[Q] => {
    const answer = answers.next(request?.handle ?? 0, question);
    if (answer === undefined || answer === 'failed') throw new Error('as recorded');
    return answer as ConnectorAnswers[Q];
  };
  const { protection, reporters } = header;
  const required: SchedulerConnector = {
    protection,
    reporters,
    getNumNewMatchedTokens: (request) => ask(request, 'match'),
    updateStateAfterAlloc: (request) => void ask(request, 'alloc'),
    buildMetadata: () => new PartialMetadata(null, ask(null, 'metadata').failedChildren),
    requestFinished: (request) => {
      const finished = ask(request, 'finished');
      // Such an answer is refused here, because the scheduler would treat it as the answer of a
      // connector that failed. No further question would then show the mismatch.
      const unknown = finished.children.find((child) => child >= reporters.length);
      if (unknown !== undefined) answers.refuse(`handle ${request.handle} was left to child ${unknown}`);
      return finished;
    },
  };
  const optional: Required<Pick<SchedulerConnector, OptionalMethod>> = {
    bind: (view) => {
      answers.view = view;
    },
    bindPins: (pins) => {
      answers.pins = pins;
    },
    onNewRequest: (request) => void ask(request, 'new'),
    requestRefused: () => {},
    updateConnectorOutput: () => void ask(null, 'output'),
    requiresKvDelivery: (request) => ask(request, 'delivery').answer,
    cancelSending: () => void ask(null, 'cancel'),
    resetCache: () => ask(null, 'reset').answer,
    hasPendingWork: () => false,
    shutdown: () => {},
  };
  const has = Object.entries(optional).filter(([name]) => methodsOf(header).includes(name));
  return { ...required, ...Object.fromEntries(has) };
}

function methodsOf({ methods }: LoggedConnector): readonly string[] {
  if (Array.isArray(methods)) return methods;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_LOG', `the log's connector has the methods ${show(methods)}`);
}
