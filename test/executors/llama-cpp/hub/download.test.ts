// Downloads, resumptions, choices and refusals; the hosts that get the token.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { fetchModel } from '../../../../src/executors/llama-cpp/hub/download-model.js';
import { readHubName } from '../../../../src/executors/llama-cpp/hub/hub-name.js';
import { temporaryFolder } from '../../../support/temp-file.js';
import { FakeHub, type Misbehaviour } from './fake-hub.js';

const TOKEN = 'hf_secretSECRETsecret';
const A = Buffer.from('the weights of a model, '.repeat(4000));
const B = Buffer.from('others, '.repeat(9000));

/** A hub with one model, a folder to fetch into, and the function that fetches. */
async function scene(files: Record<string, Buffer> = { 'model-Q4_K_M.gguf': A }) {
  const hub = await FakeHub.start();
  for (const [path, content] of Object.entries(files)) hub.files.set(path, content);
  const folder = join(temporaryFolder(), 'models');
  const told: [number, number][] = [];
  const get = (which = '', environment: NodeJS.ProcessEnv = {}, signal: AbortSignal | null = null) =>
    fetchModel(
      readHubName(`hf:someone/model${which}`),
      { folder, pauseMs: 1, signal, onProgress: (bytes, of) => told.push([bytes, of]) },
      { HF_ENDPOINT: hub.url, HF_TOKEN: TOKEN, ...environment },
    );
  const own = join(folder, 'someone', 'model');
  return { hub, folder, own, told, get };
}

/** Gives so many bytes and breaks off. @param times how often; then it gives what it should */
function breaksOffAfter(bytes: number, times = Number.POSITIVE_INFINITY): Misbehaviour {
  let left = times;
  return ({ headers }, response, next) => {
    if (left-- <= 0) return next();
    const from = Number(/\d+/.exec(headers.range ?? '0')![0]);
    const status = from > 0 ? 206 : 200;
    response.writeHead(status, {
      'content-range': `bytes ${from}-${A.length - 1}/${A.length}`,
      'content-length': A.length - from,
    });
    response.write(A.subarray(from, from + bytes), () => response.destroy());
  };
}

describe('a model of a hub', () => {
  it('is fetched, checked, and not fetched again', async () => {
    const { hub, own, told, get } = await scene();
    const path = join(own, 'model-Q4_K_M.gguf');
    expect(await get()).toEqual({ path, fetched: A.length, unasked: null });
    expect(readFileSync(path).equals(A)).toBe(true);
    expect(told.at(-1)).toEqual([A.length, A.length]);
    expect(readdirSync(own).sort()).toEqual(['fetched.json', 'model-Q4_K_M.gguf']);
    expect(await get()).toEqual({ path, fetched: 0, unasked: null });
    expect(hub.askedElsewhere).toHaveLength(1);
  });

  it('is fetched again when the hub has another one, or when its file is another', async () => {
    const { hub, own, get } = await scene();
    const path = join(own, 'model-Q4_K_M.gguf');
    await get();
    hub.files.set('model-Q4_K_M.gguf', B);
    expect(await get()).toMatchObject({ fetched: B.length });
    expect(readFileSync(path).equals(B)).toBe(true);
    writeFileSync(path, 'cut off');
    expect(await get()).toMatchObject({ fetched: B.length });
    expect(readFileSync(path).equals(B)).toBe(true);
  });

  it('may be small enough for git, which names it by another hash', async () => {
    const { hub, get } = await scene();
    hub.isLarge = false;
    expect(await get()).toMatchObject({ fetched: A.length });
    hub.files.set('model-Q4_K_M.gguf', B);
    hub.misbehaves = (_question, response) => void response.end(Buffer.alloc(B.length));
    await expect(get()).rejects.toThrow(/do not have the hash git:/);
  });

  it('comes whole, with all its parts, and not without one', async () => {
    const parts = [1, 2, 3].map((i) => [`Q8_0/m-Q8_0-0000${i}-of-00003.gguf`, i === 2 ? B : A] as const);
    const { hub, own, told, get } = await scene({ ...Object.fromEntries(parts), 'm-Q4_K_M.gguf': A });
    const { path, fetched } = await get(':q8_0');
    expect([path, fetched]).toEqual([join(own, parts[0][0]), 2 * A.length + B.length]);
    for (const [name, content] of parts) expect(readFileSync(join(own, name)).equals(content)).toBe(true);
    expect(told.at(-1)).toEqual([fetched, fetched]);
    hub.files.delete(parts[1][0]);
    await expect(get(':Q8_0')).rejects.toThrow(
      /has not all 3 parts of Q8_0\/m-Q8_0-00001-of-00003\.gguf: 2 are there/,
    );
  });

  it('has no parts of two versions, when a new one was fetched in part', async () => {
    const names = [1, 2].map((i) => `m-Q8_0-0000${i}-of-00002.gguf`);
    const { hub, get } = await scene({ [names[0]]: A, [names[1]]: A });
    await get(':Q8_0');
    hub.files.set(names[0], B).set(names[1], B);
    hub.misbehaves = ({ url }, response, next) =>
      url.includes('-00002-of-') ? response.writeHead(404).end() : next();
    await expect(get(':Q8_0')).rejects.toThrow(/404/);
    await expect(get(':Q8_0', { HF_HUB_OFFLINE: '1' })).rejects.toThrow(/not all 2 parts/);
  });

  it('is chosen by its quantization or its path; what is beside models is none', async () => {
    const names = [
      'm-Q4_K_M.gguf',
      'm-UD-Q4_K_M.gguf',
      'm-Q8_0.gguf',
      'mmproj-m-Q8_0.gguf',
      'm.imatrix.gguf',
    ];
    const { get, own } = await scene(Object.fromEntries(names.map((name) => [name, A])));
    expect((await get(':q8_0')).path).toBe(join(own, 'm-Q8_0.gguf'));
    await expect(get()).rejects.toThrow(
      /has 2 models for Q4_K_M, .*There is: m-Q4_K_M.gguf, m-Q8_0.gguf, m-UD/,
    );
    await expect(get(':K_M')).rejects.toThrow(/has no model for K_M\. There is: /);
    expect((await get(':m-UD-Q4_K_M.gguf')).path).toBe(join(own, 'm-UD-Q4_K_M.gguf'));
  });
});

describe('a download that breaks off', () => {
  it('goes on where it was, in the same call and in a later one', async () => {
    const { hub, own, told, get } = await scene();
    hub.misbehaves = breaksOffAfter(40_000, 2);
    expect(await get()).toMatchObject({ fetched: A.length });
    expect(hub.askedElsewhere.map(({ headers }) => headers.range)).toEqual([
      undefined,
      'bytes=40000-',
      'bytes=80000-',
    ]);
    hub.files.set('model-Q4_K_M.gguf', B);
    hub.misbehaves = ({ headers }, response, next) => {
      if (headers.range !== undefined) return void response.destroy();
      void next;
      response.writeHead(200, { 'content-length': B.length });
      response.write(B.subarray(0, 30_000), () => response.destroy());
    };
    await expect(get()).rejects.toThrow(/model-Q4_K_M\.gguf broke off at byte 30000: |cannot be reached/);
    expect(readdirSync(own).filter((name) => name.endsWith('.part'))).toHaveLength(1);
    hub.misbehaves = (_question, _response, next) => next();
    told.length = 0;
    expect(await get()).toMatchObject({ fetched: B.length });
    expect(hub.askedElsewhere.at(-1)!.headers.range).toBe('bytes=30000-');
    expect(told[0]).toEqual([30_000, B.length]);
    expect(readdirSync(own).sort()).toEqual(['fetched.json', 'model-Q4_K_M.gguf']);
  });

  it('begins anew where the hub gives files whole alone, or what is there is damaged', async () => {
    const { hub, own, get } = await scene();
    let isFirst = true;
    hub.misbehaves = (_question, response, next) => {
      if (!isFirst) return void response.end(A);
      isFirst = false;
      void next;
      response.writeHead(200, { 'content-length': A.length });
      response.write(A.subarray(0, 50_000), () => response.destroy());
    };
    expect(await get()).toMatchObject({ fetched: A.length });
    // The part of an earlier try is of another content, as after a damage of the disk: a resumed
    // file is not right then.
    hub.files.set('model-Q4_K_M.gguf', B);
    hub.misbehaves = ({ headers }, response, next) =>
      headers.range === undefined ? response.destroy() : next();
    await expect(get()).rejects.toThrow();
    const [part] = readdirSync(own).filter((name) => name.endsWith('.part'));
    writeFileSync(join(own, part), Buffer.alloc(500));
    hub.misbehaves = (_question, _response, next) => next();
    expect(await get()).toMatchObject({ fetched: B.length });
    expect(readFileSync(join(own, 'model-Q4_K_M.gguf')).equals(B)).toBe(true);
  });

  it('of an older version is not gone on with', async () => {
    const { hub, own, get } = await scene();
    hub.misbehaves = breaksOffAfter(10_000, 1);
    const abort = new AbortController();
    const broken = get('', {}, abort.signal);
    hub.misbehaves = ((given) => (question: never, response: never, next: () => void) => {
      given(question, response, next);
      setImmediate(() => abort.abort(new Error('enough')));
    })(hub.misbehaves) as Misbehaviour;
    await expect(broken).rejects.toThrow('enough');
    hub.files.set('model-Q4_K_M.gguf', B);
    hub.misbehaves = (_question, _response, next) => next();
    await get();
    expect(hub.askedElsewhere.at(-1)!.headers.range).toBeUndefined();
    expect(readFileSync(join(own, 'model-Q4_K_M.gguf')).equals(B)).toBe(true);
    expect(readdirSync(own).sort()).toEqual(['fetched.json', 'model-Q4_K_M.gguf']);
  });

  it('is not fetched twice at once', async () => {
    const { own, get } = await scene();
    const results = await Promise.allSettled([get(), get()]);
    const [failed] = results.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[];
    expect(String(failed.reason)).toMatch(/the process \d+ of .* fetches the same model into/);
    // A process that is no more holds nobody up.
    writeFileSync(join(own, 'model-Q4_K_M.gguf'), '');
    writeFileSync(join(own, '.lock'), `${2 ** 22 + 1} ${hostname()}`);
    expect(await get()).toMatchObject({ fetched: A.length });
    expect(existsSync(join(own, '.lock'))).toBe(false);
  });
});

describe('a hub that means harm', () => {
  it.each([
    '../../escaped.gguf',
    '/tmp/escaped.gguf',
    'a/../../../escaped.gguf',
    '..\\escaped.gguf',
    'C:\\escaped.gguf',
    'C:escaped.gguf',
    'a//b.gguf',
    './b.gguf',
    '.ssh/b.gguf',
    'a\u0000.gguf',
    `${'a'.repeat(300)}.gguf`,
  ])('names a file %j', async (rfilename) => {
    const { hub, own, folder, get } = await scene();
    hub.lists = (files) => ({ sha: '0'.repeat(40), siblings: files.map((file) => ({ ...file, rfilename })) });
    await expect(get()).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DOWNLOAD' });
    expect(existsSync(own) || existsSync(join(folder, 'escaped.gguf'))).toBe(false);
    expect(hub.asked).toHaveLength(1);
  });

  it.each<[string, Misbehaviour, RegExp]>([
    [
      'other bytes',
      (_question, response) => void response.end(Buffer.alloc(A.length)),
      /do not have the hash sha256:/,
    ],
    [
      'more bytes',
      (_question, response) => void response.end(Buffer.concat([A, A])),
      /sends more of .* than the/,
    ],
    [
      'fewer bytes',
      (_question, response) => void response.end(A.subarray(0, 5)),
      /ends at byte 5, but should have/,
    ],
    ['nothing', (_question, response) => void response.end(), /ends at byte 0, but should have/],
    ['an error', (_question, response) => void response.writeHead(404).end(), /answers 404 for model/],
    ['errors', (_question, response) => void response.writeHead(503).end(), /answers 503 for model/],
  ])('gives %s', async (_what, misbehaves, message) => {
    const { hub, own, get } = await scene();
    hub.misbehaves = misbehaves;
    await expect(get()).rejects.toThrow(message);
    expect(existsSync(join(own, 'model-Q4_K_M.gguf'))).toBe(false);
    // A wrong file is not kept.
    if (message.source.includes('hash')) expect(readdirSync(own)).toEqual([]);
    hub.misbehaves = (_question, _response, next) => next();
    expect(await get()).toMatchObject({ fetched: A.length });
  });

  it('gives another piece of a file than the one that was asked for', async () => {
    const { hub, get } = await scene();
    hub.misbehaves = breaksOffAfter(1000, 1);
    const given = hub.misbehaves;
    hub.misbehaves = (question, response, next) => {
      if (question.headers.range === undefined) return given(question, response, next);
      response.writeHead(206, { 'content-range': `bytes 0-${A.length - 1}/${A.length}` }).end(A);
    };
    await expect(get()).rejects.toThrow(/was asked for from byte 1000 on, and the hub gives bytes 0-/);
  });

  it.each<[string, unknown, RegExp]>([
    ['no JSON', 'nothing', /does not list the files/],
    ['no files', { sha: '0'.repeat(40) }, /does not list the files/],
    ['no commit', { sha: '../..', siblings: [] }, /does not list the files/],
    [
      'no model',
      { sha: '0'.repeat(40), siblings: [{ rfilename: 'README.md' }] },
      /There is: no GGUF file at all/,
    ],
    [
      'no hash',
      { sha: '0'.repeat(40), siblings: [{ rfilename: 'a.gguf', size: 3 }] },
      /gives no size and hash/,
    ],
    [
      'a hash that is a path',
      { sha: '0'.repeat(40), siblings: [{ rfilename: 'a.gguf', size: 3, blobId: '../../x' }] },
      /gives no size and hash/,
    ],
    ['a list without end', `[${'1,'.repeat(2 ** 24)}1]`, /has more than 33554432 bytes/],
  ])('lists %s', async (_what, lists, message) => {
    const { hub, own, get } = await scene();
    hub.lists = () => lists;
    await expect(get()).rejects.toThrow(message);
    expect(existsSync(own)).toBe(false);
  });

  it('wants more room than there is', async () => {
    const { hub, own, get } = await scene();
    const lfs = { sha256: '0'.repeat(64), size: 2 ** 50 };
    hub.lists = () => ({ sha: '0'.repeat(40), siblings: [{ rfilename: 'a.gguf', lfs }] });
    await expect(get()).rejects.toThrow(/a\.gguf\S* takes 1048576\.0 GiB more, and .* are free there/);
    expect(readdirSync(own).filter((name) => name.endsWith('.gguf'))).toEqual([]);
  });

  it('fills the disk', async () => {
    const { hub, own, get } = await scene();
    const handle = await open(join(temporaryFolder(), 'x'), 'w');
    const prototype = Object.getPrototypeOf(handle) as { write: (...given: unknown[]) => Promise<unknown> };
    const { write } = prototype;
    await handle.close();
    let left = 1;
    const full = vi.spyOn(prototype, 'write').mockImplementation(function (this: unknown, ...given) {
      if (left-- > 0) return write.apply(this, given);
      return Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC', syscall: 'write' }));
    });
    onTestFinished(() => full.mockRestore());
    hub.misbehaves = breaksOffAfter(40_000, 1);
    await expect(get()).rejects.toThrow(/there is no room for .*\.part: the part that is there is kept/);
    full.mockRestore();
    expect(await get()).toMatchObject({ fetched: A.length });
    expect(readFileSync(join(own, 'model-Q4_K_M.gguf')).equals(A)).toBe(true);
  });

  it('redirects to an address that is not allowed, or without end', async () => {
    const { hub, get } = await scene();
    for (const to of ['file:///etc/passwd#', 'http://a:b@127.0.0.1', 'ftp://127.0.0.1', '//[']) {
      hub.redirectsTo = to;
      await expect(get()).rejects.toThrow(/redirects to an address that is not allowed/);
    }
    hub.redirectsTo = hub.url;
    hub.files.set('model-Q4_K_M.gguf', A);
    await expect(get()).rejects.toThrow(/more than 5 redirects/);
  });
});

describe('a token', () => {
  it('goes to the hub alone, and not with a redirect', async () => {
    const { hub, get } = await scene();
    await get();
    expect(hub.asked.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${TOKEN}`,
      `Bearer ${TOKEN}`,
    ]);
    expect(hub.askedElsewhere.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    // Not to the hub itself either: the target of a redirect could be chosen by others.
    hub.files.set('model-Q4_K_M.gguf', B);
    hub.redirectsTo = `${hub.url}/again`;
    await expect(get()).rejects.toThrow(/answers 404/);
    expect(hub.asked.at(-1)).toMatchObject({ url: expect.stringMatching(/^\/again/) });
    expect(hub.asked.at(-1)!.headers.authorization).toBeUndefined();
  });

  it('stands in no message, nor does what a redirect was signed with', async () => {
    const { hub, get } = await scene();
    const messages: string[] = [];
    const note = async (promise: Promise<unknown>): Promise<void> => {
      const error = await promise.then(
        () => null,
        (reason: unknown) => reason,
      );
      expect(error).toBeInstanceOf(Error);
      for (let at = error; at instanceof Error; at = at.cause) messages.push(String(at.stack));
    };
    for (const status of [401, 403, 404, 500]) {
      hub.misbehaves = (_question, response) => void response.writeHead(status).end();
      await note(get());
    }
    hub.misbehaves = (_question, response) => void response.destroy();
    await note(get());
    await note(get('', { HF_TOKEN: `${TOKEN}\n${TOKEN}` }));
    await note(get('', { HF_TOKEN: `${TOKEN}ü` }));
    await note(get('', { HF_ENDPOINT: 'http://hub.example' }));
    await note(get('', { HF_ENDPOINT: `http://user:${TOKEN}@127.0.0.1` }));
    await note(get('', { HF_ENDPOINT: 'http://127.0.0.1:1' }));
    for (const said of [
      'HF_TOKEN does not let in (401)',
      'must be https where HF_TOKEN is given',
      'without a password',
    ])
      expect(messages.join('\n')).toContain(said);
    expect(messages.join('\n')).not.toMatch(/secretSECRET|signature=secret/);
  });
});

describe('without a hub', () => {
  it('what was fetched is taken, if all of it is here', async () => {
    const { hub, folder, own, get } = await scene({ 'a-Q4_K_M.gguf': A, 'a-Q8_0.gguf': B });
    const { path } = await get();
    const { length } = hub.asked;
    for (const HF_HUB_OFFLINE of ['1', 'true', 'YES'])
      expect(await get('', { HF_HUB_OFFLINE })).toEqual({
        path,
        fetched: 0,
        unasked: 'HF_HUB_OFFLINE is set',
      });
    expect(hub.asked).toHaveLength(length);
    expect(await get('', { HF_ENDPOINT: 'http://127.0.0.1:1' })).toEqual({
      path,
      fetched: 0,
      unasked: expect.stringMatching(/^127\.0\.0\.1:1 cannot be reached: /),
    });
    await expect(get(':Q8_0', { HF_HUB_OFFLINE: '1' })).rejects.toThrow(
      /HF_HUB_OFFLINE is set, and .* does not have it/,
    );
    writeFileSync(path, 'cut off');
    await expect(get('', { HF_HUB_OFFLINE: '1' })).rejects.toThrow(/does not have it/);
    // A record that somebody changed leads nowhere else.
    writeFileSync(join(folder, 'outside.gguf'), 'outside');
    const record = { files: [{ path: '../../outside.gguf', size: 7, hash: '' }] };
    writeFileSync(join(own, 'fetched.json'), JSON.stringify(record));
    await expect(get('', { HF_HUB_OFFLINE: '1' })).rejects.toThrow(/no GGUF file at all/);
  });
});

describe('the folder of models', () => {
  it('is not left by links', async () => {
    const { folder, own, get } = await scene();
    const outside = temporaryFolder();
    mkdirSync(join(folder, 'someone'), { recursive: true });
    symlinkSync(outside, own);
    await expect(get()).rejects.toThrow(/is a link to elsewhere; nothing is written there/);
    expect(readdirSync(outside)).toEqual([]);
  });

  it('has no file that a link stands for', async () => {
    const { hub, own, get } = await scene();
    hub.misbehaves = (_question, response) => void response.destroy();
    await expect(get()).rejects.toThrow();
    const [part] = readdirSync(own).filter((name) => name.endsWith('.part'));
    const precious = join(temporaryFolder(), 'precious');
    writeFileSync(precious, 'precious');
    rmSync(join(own, part));
    symlinkSync(precious, join(own, part));
    await expect(get()).rejects.toThrow(/cannot be written: ELOOP/);
    expect(readFileSync(precious, 'utf8')).toBe('precious');
    expect(lstatSync(join(own, part)).isSymbolicLink()).toBe(true);
  });
});

describe('the name of a model', () => {
  it.each([
    'hf:',
    'hf:a',
    'hf:a/',
    'hf:a/b/c',
    'hf:../b',
    'hf:a/..',
    'hf:a/b:',
    'hf:a/b:c:d',
    'hf:a/.b',
    'hf:a/b c',
    'hf:a/b%2fc',
  ])('is not %j', (name) => {
    expect(() => readHubName(name)).toThrow(/must be hf:OWNER\/NAME or hf:OWNER\/NAME:WHICH, got/);
  });

  it('has an owner, a name, and which', () => {
    expect(readHubName('hf:some-one/a.Model-3B_x:Q4_K_M')).toEqual({
      owner: 'some-one',
      name: 'a.Model-3B_x',
      which: 'Q4_K_M',
    });
  });
});
