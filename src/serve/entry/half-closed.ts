// Answers clients that have ended their side of the connection.
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** Milliseconds between two probes of a half-closed connection. */
const PROBE_MS = 500;

/** A comment of server-sent events. */
const COMMENT = ':\n\n';

/** Node reads this property of a server when a FIN comes, and has no option for it. */
type HalfOpenServer = Server & { httpAllowHalfOpen: boolean };

/** By connection: the responses of these routes that are not over. */
type Live = WeakMap<Socket, Set<ServerResponse>>;

/**
 * Has the routes of `app` answer a client that has sent its request and then its FIN (RFC 9112, section 8: a FIN does not say that nobody
 * wants the answer). A client that closes its whole connection sends the same FIN. It differs in what its machine answers to further bytes:
 * RST, behind which a write fails. So until the answer is over, the server sends bytes that mean nothing. Once such a write fails, the
 * response is closed, as for any client that has left.
 *
 * A client of HTTP/1.0 must not be sent such bytes: its FIN closes the connection, as Node does it. Other routes of the server keep that too.
 */
export function answerHalfClosed(app: FastifyInstance): void {
  const server = app.server as HalfOpenServer;
  const live: Live = new WeakMap();
  app.addHook('onRequest', ({ raw: { httpVersion, socket } }, { raw: response }, done) => {
    if (httpVersion === '1.1') {
      const responses = live.get(socket) ?? watch(server, socket, live);
      responses.add(response);
      response.once('close', () => responses.delete(response));
    }
    done();
  });
}

/** Keeps a connection open behind a FIN while there are responses. */
function watch(server: HalfOpenServer, socket: Socket, live: Live): Set<ServerResponse> {
  const responses = new Set<ServerResponse>();
  live.set(socket, responses);
  let before = false;
  // Node's own listener stands between these two.
  socket.prependListener('end', () => {
    before = server.httpAllowHalfOpen;
    server.httpAllowHalfOpen ||= responses.size > 0;
  });
  socket.on('end', () => {
    server.httpAllowHalfOpen = before;
    if (responses.size === 0) return;
    const timer = setInterval(() => responses.forEach(probe), PROBE_MS);
    socket.once('close', () => clearInterval(timer));
  });
  return responses;
}

function probe(response: ServerResponse): void {
  // What waits to be taken is a probe too. A response behind another one on its connection has no socket yet.
  if (response.writableEnded || response.writableNeedDrain || response.socket === null) return;
  if (response.headersSent) response.write(COMMENT);
  else response.writeContinue();
}
