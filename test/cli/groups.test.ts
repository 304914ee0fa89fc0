// `serve` and `replay` with `--kv-groups`: over HTTP, with events, figures and metrics.
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Figures } from '../../src/serve/page/answers.js';
import { Follower } from '../kv-events/follower.js';
import { replay, run } from './run-program.js';
import { serveProgram } from './serve-program.js';

const WINDOWS = '[{"type": "full"}, {"type": "sliding", "window": 24}]';
const STATES = '[{"type": "full"}, {"type": "mamba", "mode": "align"}]';
const EVENTS = JSON.stringify({ endpoint: 'tcp://127.0.0.1:*', replay_endpoint: 'tcp://127.0.0.1:*' });
/** 100 tokens, and 60 more: the window leaves most of their blocks. */
const LONG = { prompt: Array.from({ length: 100 }, (_, i) => i), max_tokens: 60, ignore_eos: true };
const FAST = ['--step-overhead-ms', '0', '--weight-bytes', '0', '--kv-bytes-per-token', '0'];

describe('blockstep serve --kv-groups', () => {
  it.each([
    ['reference', ['--latency-ms', '0']],
    ['simulated', ['--executor', 'simulated', ...FAST]],
  ])('%s: answers over HTTP, and figures, map, metrics and events have the groups', async (_, args) => {
    const { said, url, complete } = await serveProgram(
      ...args,
      '--kv-groups',
      WINDOWS,
      '--kv-events-config',
      EVENTS,
    );
    const [, events, replays] = /^KV cache events: (tcp:.*), replays at (tcp:.*)$/m.exec(said.stdout)!;
    const follower = new Follower(events, replays);
    onTestFinished(() => follower.close());
    const { choices } = await complete(LONG);
    expect(choices[0].finish_reason).toBe('length');
    const get = async (path: string): Promise<Response> => await fetch(url + path);
    const { present } = (await (await get('/figures')).json()) as Figures;
    // All but the last one of 160 tokens were computed: the window let go all blocks but two, and each was a hash before.
    expect(present?.groups).toMatchObject([
      { name: 'full', usedBlocks: 0, cachedBlocks: 9, droppedBlocks: 0 },
      { name: 'sliding 24', usedBlocks: 0, cachedBlocks: 9, droppedBlocks: 8 },
    ]);
    const map = new Uint8Array(await (await get('/blocks')).arrayBuffer());
    expect([1 + 16, 1 + 32].map((byte) => map.filter((each) => each === byte).length)).toEqual([9, 9]);
    const metrics = await (await get('/metrics')).text();
    expect(metrics).toMatch(/^blockstep:kv_group_dropped_blocks_total\{.*group="1",kind="sliding 24"\} 8$/m);
    while ((follower.hashes.get('GPU of 1')?.size ?? 0) < 9) await follower.replay();
    expect(follower.hashes.get('GPU')?.size).toBe(9);
    const stored = follower.batches.flatMap(([, batch]) => batch as Record<string, unknown>[]);
    expect(stored.filter((event) => event['group_idx'] === 1)[0]).toMatchObject({
      type: 'BlockStored',
      kv_cache_spec_kind: 'sliding_window',
      kv_cache_spec_sliding_window: 24,
    });
    // The prompt is found again in both groups.
    const again = await complete({ ...LONG, max_tokens: 1 });
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(96);
  });

  it('refuses groups that make no sense, before anything starts', async () => {
    for (const [groups, message] of [
      ['[{"type": "sliding"}]', /kvGroups\[0\]\.window/],
      ['{"type": "full"}', /--kv-groups/],
      ['[{"type": "full"}, {"type": "linear"}]', /kvGroups\[1\]\.type must be one of full/],
    ] as const) {
      const { code, stderr, stdout } = await run(['serve', '--kv-groups', groups]);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(message);
    }
  });
});

describe('blockstep replay --kv-groups', () => {
  const SMALL = ['--requests', '80', '--num-blocks', '1200', '--max-num-seqs', '32'];

  it('replays every request with groups: windows hold less, so that less is preempted', async () => {
    const full = '[{"type": "full"}, {"type": "full"}]';
    const reports = [];
    for (const groups of [full, WINDOWS]) reports.push(await replay(...SMALL, '--kv-groups', groups));
    for (const { requests, tokens } of reports) {
      expect(requests).toMatchObject({ total: 80, finished: 80, unfinished: 0 });
      expect(tokens).toEqual(reports[0].tokens);
    }
    const [all, windows] = reports.map(({ preemptions }) => preemptions);
    expect(all).toBeGreaterThan(windows);
  });

  it('replays states, whose steps end where blocks do', async () => {
    const { requests, anomalies } = await replay(...SMALL, '--kv-groups', STATES);
    expect(requests).toMatchObject({ finished: 80, unfinished: 0 });
    expect(anomalies).toEqual({});
  });
});
