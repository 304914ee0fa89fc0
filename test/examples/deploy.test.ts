// The unit, the image and the alerts: flags, times, names.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { run } from '../cli/run-program.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const unit = read('examples/deploy/blockstep.service');
const image = read('examples/deploy/Dockerfile');
/** Why the unit cannot be verified; null if it can. */
const whyNoSystemd =
  spawnSync('systemd-analyze', ['--version']).status === 0 ? null : 'systemd-analyze is not installed';
if (whyNoSystemd !== null) console.log(`skipped: ${whyNoSystemd}`);
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
if (!hasPromtool) console.log('skipped: promtool is not installed');
const [, entry] = /^ENTRYPOINT (\[.*\])$/m.exec(image)!;
const [, started] = /^ExecStart=(.*)$/m.exec(unit)!;

/** Names of flags in a text. */
function flagsIn(text: string): string[] {
  return text.match(/--[a-z]+(-[a-z]+)*/g) ?? [];
}

describe('the examples of deploying', () => {
  it('start what the package has, with flags that serve knows, and the llama.cpp that is supported', async () => {
    const { bin, peerDependencies } = JSON.parse(read('package.json')) as {
      bin: { blockstep: string };
      peerDependencies: Record<string, string>;
    };
    const { stdout } = await run(['serve', '--help']);
    const known = flagsIn(stdout);
    const llama = `@node-llama-cpp/linux-x64@${peerDependencies['@node-llama-cpp/linux-x64']}`;
    for (const [text, command] of [
      [unit, started],
      [image, (JSON.parse(entry) as string[]).join(' ')],
    ]) {
      expect(command).toContain(join('node_modules/blockstep', bin.blockstep));
      const flags = flagsIn(command);
      expect(flags.length).toBeGreaterThan(1);
      expect(flags.filter((flag) => !known.includes(flag))).toEqual([]);
      expect(text).toContain(llama);
    }
    // The names on the pages are there too.
    for (const flag of ['--max-body-bytes', '--log-level', '--log-prompts', '--no-control', '--no-page'])
      expect(read('docs/operating.md')).toContain(flag);
    expect(known).toEqual(expect.arrayContaining(['--max-body-bytes', '--log-level', '--log-prompts']));
  });

  it('give the server the time that its drain takes', () => {
    const [, drainMs] = /--drain-ms (\d+)/.exec(started)!;
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit)!;
    expect(Number(seconds) * 1000).toBeGreaterThan(Number(drainMs) + 5000);
  });

  it('have the alerts that the page explains, and no other', () => {
    const alerts = [...read('examples/deploy/alerts.yml').matchAll(/- alert: (\w+)/g)].map(
      ([, name]) => name,
    );
    const explained = [...read('docs/operating.md').matchAll(/^\| `(Blockstep\w+)` \|/gm)].map(
      ([, name]) => name,
    );
    expect(explained).toEqual(alerts);
  });

  it.skipIf(!hasPromtool)('have alerts that are raised by what they are for', () => {
    const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'test/examples/alerts.yml'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect([status, stdout + stderr]).toEqual([0, expect.stringContaining('SUCCESS')]);
  });

  it.skipIf(whyNoSystemd !== null)('have a unit that systemd takes', () => {
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', 'examples/deploy/blockstep.service'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(stderr.split('\n').filter((line) => line.includes('blockstep.service'))).toEqual([]);
    expect(status).toBe(0);
  });
});
