// The number of threads for a machine, and for a container on it.
import { describe, expect, it } from 'vitest';
import {
  defaultThreads,
  processorQuota,
  threadsFor,
} from '../../../src/executors/llama-cpp/llama-threads.js';

const quotaOf = (files: Readonly<Record<string, string>>) => processorQuota((path) => files[path] ?? null);

describe('threads of llama.cpp', () => {
  it.each([
    [1, Number.POSITIVE_INFINITY, 1],
    [2, Number.POSITIVE_INFINITY, 1],
    [6, Number.POSITIVE_INFINITY, 5],
    [64, Number.POSITIVE_INFINITY, 8],
    [64, 4, 3],
    [64, 2.5, 1],
    [64, 0.25, 1],
    [4, 16, 3],
  ])('on %d processors, of which %d may be used, are %d', (processors, quota, threads) => {
    expect(threadsFor(processors, quota)).toBe(threads);
  });

  it('heed the limit of a container, and of what the container is in', () => {
    expect(quotaOf({})).toBe(Number.POSITIVE_INFINITY);
    expect(quotaOf({ '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '200000 100000\n' })).toBe(2);
    expect(quotaOf({ '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'max 100000\n' })).toBe(
      Number.POSITIVE_INFINITY,
    );
    const nested = {
      '/proc/self/cgroup': '0::/user/mine\n',
      '/sys/fs/cgroup/user/mine/cpu.max': 'max 100000\n',
      '/sys/fs/cgroup/user/cpu.max': '150000 100000\n',
    };
    expect(quotaOf(nested)).toBe(1.5);
  });

  it('heed the limit of the older cgroups', () => {
    const limit = {
      '/proc/self/cgroup': '4:cpuset:/\n3:cpu,cpuacct:/docker/a\n1:name=systemd:/\n',
      '/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us': '300000\n',
      '/sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us': '100000\n',
    };
    expect(quotaOf(limit)).toBe(3);
    expect(quotaOf({ ...limit, '/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us': '-1\n' })).toBe(
      Number.POSITIVE_INFINITY,
    );
  });

  it('are at least one here too', () => {
    expect(defaultThreads()).toBeGreaterThanOrEqual(1);
  });
});
