import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { StoreThread } from '../../../src/connectors/store/index.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { done, temporaryFolder, there } from './support/drive.js';
import { freePort, RedisServer, whyNoRedis } from './support/redis-server.js';

/** Why TLS cannot be tested; null if it can. */
const whyNot = whyNoRedis ?? whyNoOpenssl();
if (whyNot !== null && whyNoRedis === null) console.log(`skipped: ${whyNot}`);

function whyNoOpenssl(): string | null {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'openssl, which makes the certificate of a test server, is not installed';
  }
}

/** A server that speaks TLS, with a certificate of its own. */
async function encrypted(): Promise<{ url: string; ca: string; server: RedisServer }> {
  const folder = temporaryFolder();
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=blockstep test'],
      ...['-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', certificate],
    ],
    { stdio: 'ignore' },
  );
  const port = await freePort();
  const server = await RedisServer.start(
    ...['--tls-port', `${port}`, '--tls-auth-clients', 'no'],
    ...['--tls-cert-file', certificate, '--tls-key-file', key, '--tls-ca-cert-file', certificate],
  );
  return { url: `rediss://localhost:${port}`, ca: readFileSync(certificate, 'utf8'), server };
}

describe.skipIf(whyNot !== null)('a server that speaks TLS', () => {
  it('is given values and gives them back, large ones too', async () => {
    const { url, ca, server } = await encrypted();
    const staging = BlockArena.allocate({ numBlocks: 4, bytesPerBlock: 2 ** 21 });
    const thread = new StoreThread({ store: { url, tls: { ca } }, staging, timeoutMs: 20_000, pauseMs: 1 });
    for (const place of [0, 1]) staging.block(place).fill(place + 1);
    expect(await done(thread, 'put', ['a', 'b'], [0, 1])).toEqual([Outcome.done, Outcome.done]);
    expect(server.command('exists', 'a', 'b')).toBe('2');
    expect(await done(thread, 'get', ['b', 'a', 'c'], [2, 3, 0])).toEqual([
      Outcome.done,
      Outcome.done,
      Outcome.missing,
    ]);
    expect(staging.block(2).every((byte) => byte === 2)).toBe(true);
    expect(staging.block(3).every((byte) => byte === 1)).toBe(true);
    await thread.close();
  });

  it('and whose certificate nobody vouches for is not spoken to', async () => {
    const { url, server } = await encrypted();
    const staging = BlockArena.allocate({ numBlocks: 2, bytesPerBlock: 1024 });
    const thread = new StoreThread({ store: { url }, staging, timeoutMs: 20_000, pauseMs: 1 });
    expect(await there(thread, ['k'])).toEqual([Outcome.failed]);
    expect(thread.stats()).toMatchObject({ state: 'down' });
    expect(thread.stats().lastError).toMatch(/self.signed|certificate/i);
    expect(server.command('dbsize')).toBe('0');
    await thread.close();
  });
});
