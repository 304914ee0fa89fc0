import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Programs of a bare machine that has Node and no compiler. */
const BARE = [
  'sh',
  'bash',
  'env',
  'git',
  'tar',
  'gzip',
  'uname',
  'getconf',
  'sed',
  'dirname',
  'cat',
  'ln',
  'rm',
  'mkdir',
];

/** An empty project of somebody who installs the package. */
export class Project {
  readonly folder: string;
  /** A PATH with Node and npm, and no compiler. */
  readonly #bare: string;

  constructor(scratch: string) {
    this.folder = mkdtempSync(join(scratch, 'project-'));
    this.#bare = mkdtempSync(join(scratch, 'bin-'));
    for (const name of BARE) {
      const path = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
      if (path.startsWith('/')) symlinkSync(path, join(this.#bare, name));
    }
    for (const name of ['node', 'npm', 'npx'])
      symlinkSync(join(dirname(process.execPath), name), join(this.#bare, name));
    this.write('package.json', JSON.stringify({ name: 'somebody', version: '1.0.0', type: 'module' }));
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  /** Runs a program without a compiler in PATH, and returns what it prints. @throws if it fails */
  run(program: string, args: readonly string[], node?: string): string {
    return this.#run(program, args, [node, this.#bare].filter(Boolean).join(':'));
  }

  /** Runs a program with everything that this machine has. */
  runWithTools(program: string, args: readonly string[], env: Record<string, string> = {}): string {
    return this.#run(program, args, process.env['PATH'] ?? '', env);
  }

  #run(program: string, args: readonly string[], path: string, env: Record<string, string> = {}): string {
    return execFileSync(program, args, {
      cwd: this.folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { HOME: process.env['HOME'] ?? '', npm_config_update_notifier: 'false', ...env, PATH: path },
    });
  }
}
