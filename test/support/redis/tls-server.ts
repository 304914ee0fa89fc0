// A server of Redis that speaks TLS, with a certificate of its own.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../temp-file.js';
import { freePort, RedisServer, whyNoRedis } from './redis-server.js';

/** Why TLS cannot be tested; null if it can. */
export const whyNoTls: string | null = whyNoRedis ?? whyNoOpenssl();
if (whyNoTls !== null && whyNoRedis === null) console.log(`skipped: ${whyNoTls}`);

function whyNoOpenssl(): string | null {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'openssl, which makes the certificate of a test server, is not installed';
  }
}

/** A server that speaks TLS, with a certificate of its own. */
export async function startTlsServer(): Promise<{ url: string; ca: string; server: RedisServer }> {
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
