import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { readChat } from '../api/chat-request.js';
import { readCompletion } from '../api/completion-request.js';
import type { GenerationRequest, RequestBounds } from '../api/generation-request.js';
import { IGNORED_HEADER, ignoredSampling } from '../api/sampling.js';
import { checkModel, type ServedModel } from '../api/served-model.js';
import { makeGrammars } from '../api/text-format.js';
import type { RequestLog } from '../log/request-log.js';
import { type Bodies, CHAT_BODIES, COMPLETION_BODIES, type ReplyHead } from '../reply/bodies.js';
import type { Choices } from '../reply/choices.js';
import { Generation, type GenerationReader, type GenerationWatch } from '../reply/generation.js';
import { StreamedReply } from '../reply/streamed-reply.js';
import { WholeReply } from '../reply/whole-reply.js';
import { ResponseBodies } from '../responses/response-bodies.js';
import { readResponse } from '../responses/response-request.js';
import { StreamedResponse } from '../responses/streamed-response.js';
import type { LiveRequests } from './live-requests.js';
import type { ServeSettings } from './options.js';

/** One API that generates text. */
interface Way {
  readonly prefix: string;
  /** The bodies of replies in one piece. */
  readonly bodies: Pick<Bodies, 'whole'>;
  /** Makes a streamed reply. @param interval tokens of a chunk */
  streamed(head: ReplyHead, interval: number): Streamed;
  read(body: unknown, model: ServedModel, bounds: RequestBounds): Promise<GenerationRequest>;
}

/** A reply that is sent while its text is generated. */
type Streamed = GenerationReader & Pick<StreamedReply, 'start'>;

function inChunks(bodies: Bodies): Pick<Way, 'bodies' | 'streamed'> {
  return {
    bodies,
    streamed: (head, interval) => new StreamedReply(head, bodies, interval),
  };
}

const COMPLETIONS: Way = { prefix: 'cmpl-', ...inChunks(COMPLETION_BODIES), read: readCompletion };
const CHATS: Way = { prefix: 'chatcmpl-', ...inChunks(CHAT_BODIES), read: readChat };
const RESPONSES: Way = {
  prefix: 'resp_',
  bodies: {
    whole: (head, [choice], usage) => {
      const bodies = new ResponseBodies(head);
      bodies.drain(choice);
      return bodies.whole(choice, usage);
    },
  },
  streamed: (head, interval) => new StreamedResponse(new ResponseBodies(head), interval),
  read: readResponse,
};

/** Observers of generations. */
interface Around {
  readonly watch: GenerationWatch | null;
  readonly live: LiveRequests;
  readonly choices: Choices;
  readonly log: RequestLog;
}

/** The routes that generate text. */
export function addGenerateRoutes(app: FastifyInstance, settings: ServeSettings, around: Around): void {
  const add = (path: string, way: Way): void => {
    app.post(path, (request, reply) => generate(way, { ...settings, ...around }, request, reply));
  };
  add('/v1/completions', COMPLETIONS);
  add('/v1/chat/completions', CHATS);
  add('/v1/responses', RESPONSES);
}

async function generate(
  way: Way,
  settings: ServeSettings & Around,
  { body }: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const { model, watch, live, choices, log } = settings;
  checkModel(body, model);
  const wanted = await way.read(body, model, settings);
  const ignored = ignoredSampling(wanted.sampling, model.sampling);
  if (ignored.length > 0) reply.header(IGNORED_HEADER, ignored.join(', '));
  const { format } = wanted;
  const grammars =
    format === null || model.grammar === null
      ? null
      : await makeGrammars(format, model.grammar, wanted.prompts.length * wanted.n);
  const id = way.prefix + randomUUID().replaceAll('-', '');
  const created = Math.floor(Date.now() / 1000);
  const head: ReplyHead = { id, created, model: model.id, includesUsage: wanted.includesUsage };
  if (wanted.isStreamed) {
    const streamed = way.streamed(head, settings.streamInterval);
    const generation = new Generation(choices, model, wanted, id, { reader: streamed, watch, grammars });
    live.add(generation, reply.raw);
    log.generates(reply.raw, generation);
    // From here on the stream owns the response.
    reply.hijack();
    streamed.start(generation, reply.raw, reply.getHeaders());
    return reply;
  }
  const whole = new WholeReply(head, way.bodies);
  const generation = new Generation(choices, model, wanted, id, { reader: whole, watch, grammars });
  live.add(generation, reply.raw);
  log.generates(reply.raw, generation);
  const answer = await whole.body(generation, reply.raw);
  if (answer !== null) return answer;
  // The client has left, so nobody can receive an answer.
  reply.hijack();
  return reply;
}
