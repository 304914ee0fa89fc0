// A run of compute-sanitizer passes only if its own summary says so.
import { describe, expect, it } from 'vitest';
import { FOUND_EXIT_CODE, judgeSanitizer } from '../../bench/gpu/checks/sanitizer-report.js';
import type { Ended } from '../../bench/gpu/host/command.js';
import { TEXTS } from './sanitizer-texts.js';

const ended = (stdout: string, status: number | null = 0, more: Partial<Ended> = {}): Ended => {
  return { status, timedOut: false, seconds: 1, stdout, stderr: '', ...more };
};

describe('a run of compute-sanitizer', () => {
  it.each(['CLEAN_MEMCHECK', 'CLEAN_RACECHECK'] as const)('has passed with the summary of %s', (name) => {
    const { verdict, detail } = judgeSanitizer(ended(TEXTS[name]));
    expect([verdict, detail]).toEqual(['passed', expect.stringMatching(/^0 /)]);
  });

  it.each(['OUT_OF_BOUNDS', 'RACE'] as const)('has failed with %s, and says what was found', (name) => {
    const { verdict, detail } = judgeSanitizer(ended(TEXTS[name], FOUND_EXIT_CODE));
    expect(verdict).toBe('failed');
    expect(detail).toMatch(/^[12] (errors|hazard)/);
    expect(detail).toMatch(/Invalid __global__ write|Race reported/);
  });

  it.each(['NOT_SUPPORTED', 'NOT_ATTACHED'] as const)('is unavailable with %s, in its words', (name) => {
    const { verdict, detail } = judgeSanitizer(ended(TEXTS[name], FOUND_EXIT_CODE));
    expect(verdict).toBe('unavailable');
    expect(detail).toMatch(/^(Device not supported|Target application terminated)/);
  });

  it('has failed where the program did, whatever the tool says', () => {
    const stderr = 'no GPU to test on: mapped memory self-test failed\n';
    const { verdict, detail } = judgeSanitizer(ended(TEXTS.GAVE_UP, 2, { stderr }));
    expect(verdict).toBe('failed');
    expect(detail).toContain('self-test failed');
  });

  it('has proved nothing without a summary, or when its time was over', () => {
    expect(judgeSanitizer(ended('{"equal": true}\n')).verdict).toBe('failed');
    expect(judgeSanitizer(ended('', 127, { stderr: 'not found' })).verdict).toBe('failed');
    expect(judgeSanitizer(ended(TEXTS.CLEAN_MEMCHECK, null, { timedOut: true })).verdict).toBe('unfinished');
  });

  it('takes words of the program for nothing that the tool said', () => {
    const stdout = `Device not supported\nERROR SUMMARY: 3 errors\n${TEXTS.CLEAN_MEMCHECK}`;
    expect(judgeSanitizer(ended(stdout)).verdict).toBe('passed');
  });
});
