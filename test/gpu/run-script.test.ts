// The command of a bundle unpacks it, and names the things that a host lacks.
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findProgram } from '../../bench/gpu/host/host.js';

const SCRIPT = fileURLToPath(new URL('../../bench/gpu/run.sh', import.meta.url));
const hasTools = ['bash', 'tar', 'xz', 'python3'].every((name) => findProgram(name) !== null);

let root: string;
/** A bundle whose `node` prints its arguments. */
let bundle: string;

function program(path: string, text: string): void {
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

/** A folder for PATH with these tools of the machine, and a python3 of the given text. */
function tools(name: string, programs: readonly string[], python: string | null): string {
  const folder = join(root, name);
  mkdirSync(folder);
  for (const tool of ['bash', 'cat', 'dirname', 'mktemp', 'mkdir', 'rm', 'touch', ...programs])
    symlinkSync(findProgram(tool) as string, join(folder, tool));
  if (python !== null) program(join(folder, 'python3'), python);
  return folder;
}

function run(PATH: string, env: Record<string, string> = {}) {
  const args = ['--only', 'a b'];
  const { status, stdout, stderr } = spawnSync(join(bundle, 'run'), args, {
    env: { PATH, TMPDIR: root, ...env },
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'blockstep-run-'));
  bundle = join(root, 'a bundle');
  const stage = join(root, 'stage');
  mkdirSync(join(stage, 'native/build-emulated/Release'), { recursive: true });
  writeFileSync(join(stage, 'native/build-emulated/Release/blockstep.node'), '');
  // The script asks it for its version first.
  program(
    join(stage, 'node'),
    '#!/usr/bin/env bash\n[ "$1" = --version ] && exit 0\nshift\nprintf "<%s>" "$@"\nexit 7\n',
  );
  mkdirSync(bundle);
  if (!hasTools) return;
  for (const part of ['node', 'native'])
    execFileSync('tar', ['-cJf', join(bundle, `${part}.tar.xz`), '-C', stage, part]);
  writeFileSync(join(bundle, 'contents.txt'), 'one\n');
  program(join(bundle, 'run'), readFileSync(SCRIPT, 'utf8'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe.skipIf(!hasTools)('the command of a bundle', () => {
  /** The interpreter itself: the one in PATH may be a script that needs more of PATH. */
  const real = (): string => {
    const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' });
    return `#!/usr/bin/env bash\nexec "${python.trim()}" "$@"\n`;
  };
  const withoutLzma = '#!/usr/bin/env bash\nexit 1\n';

  it('runs what it has unpacked by Python, and ends as that does', () => {
    expect(run(tools('by python', [], real()))).toEqual({ status: 7, stdout: '<--only><a b>', stderr: '' });
  });

  it('unpacks by tar and xz where Python has no lzma', () => {
    expect(run(tools('by tar', ['tar', 'xz'], withoutLzma)).stdout).toBe('<--only><a b>');
  });

  it('says what it needs where there is neither', () => {
    for (const python of [withoutLzma, null]) {
      const found = run(tools(`by nothing ${python === null}`, [], python));
      expect(found.status).toBe(1);
      expect(found.stderr).toContain('needs python3 with its module lzma, or tar and xz');
    }
  });

  it('leaves nothing behind but BLOCKSTEP_TREE, and takes no other bundle for its own there', () => {
    const path = tools('again', [], real());
    const env = { BLOCKSTEP_TREE: join(root, 'a tree') };
    expect(run(path, env).status).toBe(7);
    expect(run(path, env).status).toBe(7);
    writeFileSync(join(bundle, 'contents.txt'), 'two\n');
    expect(run(path, env)).toMatchObject({ status: 3, stderr: expect.stringContaining('another bundle') });
    expect(execFileSync('ls', [root], { encoding: 'utf8' })).not.toContain('blockstep-gpu-');
  });
});
