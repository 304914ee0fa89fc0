// Every failure is counted by its name; a useless server ends the replay with a message; wrong
// flags.
import { describe, expect, it } from 'vitest';
import type { HttpReport } from '../../../src/cli/replay/http/report/http-report.js';
import { useTempFiles } from '../../support/temp-file.js';
import { until } from '../../support/waiting.js';
import { run } from '../run-program.js';
import {
  type Asked,
  answer,
  beginStream,
  chunk,
  type FakeOptions,
  fakeServer,
  trace,
} from './fake-server.js';
import { replayAt } from './replay-at.js';

const write = useTempFiles();
type Response = Parameters<typeof answer>[1];

/** Every second request is answered well, the others by `other`. */
function everySecond(other: (asked: Asked, response: Response) => unknown): FakeOptions {
  return { complete: (asked, response) => (asked.index % 2 === 0 ? answer : other)(asked, response) };
}

function refuse(response: Response, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error: { message, type: 'x', code: status } }));
}

describe('requests that fail', () => {
  it('counts those apart that the server has no room for (429)', async () => {
    const { code, report, stderr } = await replayAt(
      everySecond((_, response) => refuse(response, 429, 'too many')),
      trace(6),
    );
    expect([code, stderr]).toEqual([0, '']);
    expect(report!.requests).toMatchObject({ finished: 3, refused: 3, failed: 0, failedByKind: {} });
    // Refused requests have no part in the tokens.
    expect(report!.tokens.prompt).toBe(1800);
  });

  it.each<[string, string, (asked: Asked, response: Response) => unknown, RegExp]>([
    [
      'status 500',
      'an error',
      (_, response) => refuse(response, 500, 'out\u001b[31m of\nluck'),
      /^3 requests failed, the first: status 500: out \[31m of luck\n$/,
    ],
    [
      'broken off',
      'an end without an end',
      (_, response) => {
        beginStream(response);
        response.end(chunk(' x'));
      },
      /the stream ended without an end of its text/,
    ],
    [
      'broken off',
      'a lost connection',
      (_, response) => {
        beginStream(response);
        response.write(chunk(' x'), () => response.socket!.destroy());
      },
      /3 requests failed, the first: aborted/,
    ],
    [
      'error while streaming',
      'an error in the stream',
      (_, response) => {
        beginStream(response);
        response.end(`${chunk(' x')}data: {"error": {"message": "no memory"}}\n\ndata: [DONE]\n\n`);
      },
      /the first: no memory\n/,
    ],
    [
      'unreadable',
      'an event that is no JSON',
      (_, response) => {
        beginStream(response);
        response.write(`${chunk(' x')}data: oops\n\n`);
      },
      /an event is no JSON object: oops/,
    ],
  ])('counts %s: %s', async (kind, _, other, message) => {
    const { code, report, stderr } = await replayAt(everySecond(other), trace(6), '--concurrency', '1');
    expect(code).toBe(1);
    expect(stderr).toMatch(message);
    expect(report).toMatchObject({
      incomplete: false,
      requests: { finished: 3, failed: 3, failedByKind: { [kind]: 3 }, unfinished: 0 },
    });
  });

  it('gives a request up that takes too long', async () => {
    const complete = (_: Asked, response: Response): void => beginStream(response);
    const { code, report, seen, stderr } = await replayAt({ complete }, trace(2), '--timeout-s', '0.2');
    expect(code).toBe(1);
    expect(stderr).toContain('the answer was not whole after 0.2 s');
    expect(report!.requests.failedByKind).toEqual({ 'timed out': 2 });
    await until(() => seen.cut === 2, 'the ends of the connections');
  });

  it('says in the table what failed', async () => {
    const { url } = await fakeServer(everySecond((_, response) => refuse(response, 503, 'later')));
    const { stdout } = await run(['replay', write('table.jsonl', trace(4)), '--url', url]);
    expect(stdout).toMatch(
      /^FAILED: 2 of 4 requests \(status 503 2\)\. Of the first it was said: status 503:\nlater\n/,
    );
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });
});

describe('a server that is of no use', () => {
  it('cannot be reached', async () => {
    const { url, close } = await fakeServer();
    close();
    const { code, stdout, stderr } = await run(['replay', '--url', url]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^ERR_BLOCKSTEP_SERVER: the server http:\S+ cannot be reached: connect ECONNREFUSED/,
    );
  });

  it('wants a key, or another one', async () => {
    const models = (response: Response): void => refuse(response, 401, 'who are you');
    const none = await replayAt({ models }, trace(1));
    expect([none.code, none.stdout]).toEqual([1, '']);
    expect(none.stderr).toMatch(
      /^ERR_BLOCKSTEP_SERVER: .*\(status 401: who are you\): it requires a key: --api-key/,
    );
    const wrong = await replayAt({ models }, trace(1), '--api-key', 'sk-1');
    expect(wrong.stderr).toMatch(/the key is wrong\n$/);
    expect(wrong.stderr).not.toContain('sk-1');
  });

  it('wants it for completions alone: nothing more is sent', async () => {
    const complete = (_: Asked, response: Response): void => refuse(response, 401, 'who are you');
    const { code, stdout, stderr, asked } = await replayAt({ complete }, trace(50), '--concurrency', '1');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe('ERR_BLOCKSTEP_SERVER: the replay ended early: status 401: who are you\n');
    expect(asked).toHaveLength(1);
  });

  it('has other models', async () => {
    const { code, stderr, asked } = await replayAt({}, trace(1), '--model', 'gpt-9');
    expect(code).toBe(2);
    expect(stderr).toBe(
      'ERR_BLOCKSTEP_BAD_ARG: --model must be one that the server has ("fake-model", "another"), got "gpt-9"\n',
    );
    expect(asked).toEqual([]);
  });

  it('lists no models: then one must be named', async () => {
    const models = (response: Response): void => void response.writeHead(404).end('<html>');
    const { code, stderr } = await replayAt({ models }, trace(1));
    expect(code).toBe(1);
    expect(stderr).toMatch(/did not list its models \(status 404: <html>\); choose one with --model\n$/);
    expect((await replayAt({ models }, trace(1), '--model', 'any')).code).toBe(0);
  });

  it('answers with something else than a stream', async () => {
    const complete = (_: Asked, response: Response): void => {
      response.setHeader('content-type', 'application/json').end('{"choices": []}');
    };
    const { code, stdout, stderr } = await replayAt({ complete }, trace(3));
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      'ERR_BLOCKSTEP_SERVER: the replay ended early: the server answers with application/json, not with a stream of events (text/event-stream)\n',
    );
  });

  it('dies in the middle', async () => {
    const server = await fakeServer({
      complete: (asked, response) => {
        if (asked.index < 5) return answer(asked, response);
        beginStream(response);
        return response.write(chunk(' x'), () => server.close());
      },
    });
    const file = write('dying.jsonl', trace(40));
    const { code, stdout, stderr } = await run([
      'replay',
      file,
      '--json',
      '--concurrency',
      '1',
      '--url',
      server.url,
    ]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^ERR_BLOCKSTEP_SERVER: the replay ended early: the server is gone: connect ECONNREFUSED/,
    );
    const report = JSON.parse(stdout) as HttpReport;
    expect(report).toMatchObject({
      incomplete: true,
      requests: { total: 40, finished: 5, failedByKind: { 'broken off': 1, unreachable: 3 }, unfinished: 31 },
    });
    expect(report.failure).toMatch(/^the server is gone/);
  });
});

describe('the flags of a replay over HTTP', () => {
  it.each([
    [
      ['--url', 'localhost:8000'],
      '--url must be an address such as http://127.0.0.1:8000, got "localhost:8000"',
    ],
    [['--url', 'ftp://a:b@c'], '--url must be an address such as http://127.0.0.1:8000, got "ftp://c"'],
    [['--url', 'http://a/?key=1'], '--url must be an address without ? and #, got "http://a/?key=1"'],
    [
      ['--url', 'http://a:b@c', '--api-key', 'x'],
      '--url must be an address without user and password where there is a key',
    ],
    [['--url', 'http://c', '--api-key', 'x\ny'], '--api-key must be of visible ASCII characters'],
    [['--url', 'http://c', '--num-blocks', '9'], '--num-blocks cannot be used with --url'],
    [['--url', 'http://c', '--weight-bytes', '9'], '--weight-bytes cannot be used with --url'],
    [['--url', 'http://c', '--no-deviations'], '--no-deviations cannot be used with --url'],
    [['--url', 'http://c', '--record', 'x.log'], '--record cannot be used with --url'],
    [['--url', 'http://c', '--log', 'x.log'], '--url cannot be used with --log'],
    [['--url', 'http://c', '--limit', '3'], '--limit needs a FILE'],
    [['--url', 'http://c', 'a.jsonl', '--requests', '3'], '--requests cannot be used with a FILE'],
    [['--model', 'x'], '--model needs --url'],
    [['--api-key', 'x'], '--api-key needs --url'],
    [['--no-ignore-eos'], '--ignore-eos needs --url'],
    [['--concurrency', '0', '--url', 'http://c'], 'Expected an integer >= 1.'],
    [['--vocabulary-size', '900', '--url', 'http://c'], 'Expected an integer above 1000'],
    [['--timeout-s', '1e9', '--url', 'http://c'], 'Expected a number from 0 to 2147483.'],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await run(['replay', ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });
});
