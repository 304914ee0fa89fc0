import { describe, expect, it } from 'vitest';
import { ReferenceDriver, wordy } from './reference-support.js';

describe('a reference executor', () => {
  it('says what an unpaged computation says', async () => {
    using driver = new ReferenceDriver();
    const handles = [5, 10, 30].map((length, i) =>
      driver.add({ id: `r${i}`, prompt: wordy(length, i), maxTokens: 12 }),
    );
    await driver.run();
    for (const handle of handles) {
      expect(driver.texts.get(handle)).toHaveLength(12);
      expect(driver.texts.get(handle)).toEqual(driver.expectedText(handle));
    }
    expect(driver.executor.faults).toEqual([]);
  });
});
