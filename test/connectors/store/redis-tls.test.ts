// A server with TLS, and a server with an untrusted certificate.
import { describe, expect, it } from 'vitest';
import { StoreThread } from '../../../src/connectors/store/index.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { startTlsServer, whyNoTls } from '../../support/redis/tls-server.js';
import { done, there } from './support/drive.js';

describe.skipIf(whyNoTls !== null)('a server that speaks TLS', () => {
  it('is given values and gives them back, large ones too', async () => {
    const { url, ca, server } = await startTlsServer();
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
    const { url, server } = await startTlsServer();
    const staging = BlockArena.allocate({ numBlocks: 2, bytesPerBlock: 1024 });
    const thread = new StoreThread({ store: { url }, staging, timeoutMs: 20_000, pauseMs: 1 });
    expect(await there(thread, ['k'])).toEqual([Outcome.failed]);
    expect(thread.stats()).toMatchObject({ state: 'down' });
    expect(thread.stats().lastError).toMatch(/self.signed|certificate/i);
    expect(server.command('dbsize')).toBe('0');
    await thread.close();
  });
});
