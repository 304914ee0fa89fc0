// A server of Redis for the benchmark of pipelines.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Runs something with a server of Redis of its own, at a Unix socket. @param act is given its URL */
export async function withRedis(act: (url: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-bench-pipeline-'));
  const socket = join(folder, 'redis.sock');
  const args = ['--port', '0', '--unixsocket', socket, '--save', '', '--dir', folder];
  const server = spawn('redis-server', args, { stdio: 'ignore' });
  try {
    while (!(await answers(socket))) if (server.exitCode !== null) throw new Error('redis-server has ended');
    await act(`redis+unix://${socket}`);
  } finally {
    server.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket, () => {
      connection.destroy();
      resolve(true);
    }).on('error', () => setTimeout(() => resolve(false), 10));
  });
}
