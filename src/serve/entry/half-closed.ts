import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** Milliseconds between two probes of a half-closed connection. */
const PROBE_MS = 500;

/** A comment of server-sent events. */
const COMMENT = ':\n\n';

/** Node reads this property of a server when a FIN arrives, and has no option for it. */
type HalfOpenServer = Server & { httpAllowHalfOpen: boolean };

/** By connection: the unfinished responses of these routes. */
type Live = WeakMap<Socket, Set<ServerResponse>>;

/**
 * Lets the routes of `app` answer a client that has sent its request and then its FIN. According to
 * RFC 9112, section 8, a FIN does not mean that nobody wants the answer. A client that closes its
 * whole connection sends the same FIN. The two cases differ in the reaction to further bytes: a
 * closed connection answers with RST, after which a write fails. So until the answer is complete,
 * the server sends bytes without meaning. Once such a write fails, the response is closed, as for
 * any client that has left.
 *
 * A client of HTTP/1.0 must not receive such bytes: its FIN closes the connection, as Node does it.
 * The app's other routes keep Node's behaviour too.
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

/** Keeps a connection open after a FIN while it has responses. */
function watch(server: HalfOpenServer, socket: Socket, live: Live): Set<ServerResponse> {
  const responses = new Set<ServerResponse>();
  live.set(socket, responses);
  let before = false;
  // Node's own listener runs between these two.
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
  // Bytes that wait to be sent are a probe too. A response queued behind another on its connection
  // has no socket yet.
  if (response.writableEnded || response.writableNeedDrain || response.socket === null) return;
  if (response.headersSent) response.write(COMMENT);
  else response.writeContinue();
}
