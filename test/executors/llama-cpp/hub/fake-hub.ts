import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

const COMMIT = '0123456789abcdef0123456789abcdef01234567';

/** A request that the hub received. */
interface Question {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** How the hub answers for a file; `next` gives it as it should be given. */
export type Misbehaviour = (question: Question, response: ServerResponse, next: () => void) => void;

/**
 * A hub on loopback, as Hugging Face's: it lists files, and redirects downloads to another host of
 * its own.
 */
export class FakeHub {
  /** [path] what it gives. */
  readonly files = new Map<string, Buffer>();
  /** Everything that was asked: of the hub, and of the host that it redirects to. */
  readonly asked: Question[] = [];
  readonly askedElsewhere: Question[] = [];
  /** The fault in the answers for files, at the host that gives them. */
  misbehaves: Misbehaviour = (_question, _response, next) => next();
  /** The list that the hub gives in place of its files. */
  lists: ((files: object[]) => unknown) | null = null;
  /** The target of redirects; null: the hub gives files itself. */
  redirectsTo: string | null = null;
  /** Small files, which git keeps itself, have no hash of their own. */
  isLarge = true;
  url = '';
  elsewhere = '';

  /** A hub that ends with the test. */
  static async start(): Promise<FakeHub> {
    const hub = new FakeHub();
    hub.url = await listen((question, response) => {
      hub.asked.push(question);
      hub.#answer(question, response);
    });
    hub.elsewhere = await listen((question, response) => {
      hub.askedElsewhere.push(question);
      hub.#give(question, response);
    });
    hub.redirectsTo = hub.elsewhere;
    return hub;
  }

  #answer(question: Question, response: ServerResponse): void {
    if (question.url === '/api/models/someone/model/revision/main?blobs=true') {
      const files = [...this.files].map(([rfilename, content]) => ({
        rfilename,
        ...this.#describe(content),
      }));
      const said = this.lists === null ? { sha: COMMIT, siblings: files } : this.lists(files);
      response.setHeader('content-type', 'application/json');
      response.end(typeof said === 'string' ? said : JSON.stringify(said));
    } else if (this.redirectsTo !== null && question.url.startsWith(`/someone/model/resolve/${COMMIT}/`)) {
      response.writeHead(302, { location: `${this.redirectsTo}${question.url}?signature=secret` }).end();
    } else if (question.url.startsWith('/someone/model/resolve/')) {
      this.#give(question, response);
    } else response.writeHead(404).end();
  }

  #describe(content: Buffer): object {
    const { length: size } = content;
    const blobId = createHash('sha1').update(`blob ${size}\0`).update(content).digest('hex');
    const sha256 = createHash('sha256').update(content).digest('hex');
    return { size, blobId, ...(this.isLarge && { lfs: { sha256, size, pointerSize: 130 } }) };
  }

  #give(question: Question, response: ServerResponse): void {
    const path = decodeURIComponent(question.url.replace(/\?.*/, '').replace(/^.*?resolve\/[0-9a-f]+\//, ''));
    const content = this.files.get(path);
    this.misbehaves(question, response, () => {
      if (content === undefined) return void response.writeHead(404).end();
      const [, from] = /^bytes=(\d+)-$/.exec(question.headers.range ?? '') ?? [];
      if (from === undefined)
        return void response.writeHead(200, { 'content-length': content.length }).end(content);
      const range = `bytes ${from}-${content.length - 1}/${content.length}`;
      response.writeHead(206, { 'content-range': range }).end(content.subarray(Number(from)));
    });
  }
}

async function listen(answer: (question: Question, response: ServerResponse) => void): Promise<string> {
  const server = createServer((request, response) =>
    answer({ url: request.url ?? '', headers: request.headers }, response),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
