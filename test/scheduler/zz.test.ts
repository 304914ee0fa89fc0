
import { it } from 'vitest';
import { Driver, prompt } from './support.js';
it('search', () => {
  const found: string[] = [];
  for (const numBlocks of [6, 7, 8, 9]) for (const blockSize of [1, 2, 4]) for (const k of [2, 4, 6]) for (let la = 1; la < 9; la++) for (let lx = 1; lx < 4; lx++) {
    const driver = new Driver({ pipelineDepth: 3, numSpeculativeTokens: k, numBlocks, blockSize, enablePrefixCaching: false });
    try {
      driver.add({ id: 'a', prompt: prompt(la, 1), maxTokens: 9 });
      driver.add({ id: 'x', prompt: prompt(lx), maxTokens: 9 });
      for (let i = 0; i < 40 && driver.scheduler.hasWork(); i++) {
        while (driver.inFlight.length < 3 && driver.schedule().totalTokens > 0) driver.scheduler.verify();
        if (driver.inFlight.length > 0) driver.update();
        driver.scheduler.verify();
      }
    } catch (e) { found.push([numBlocks, blockSize, k, la, lx, String(e)].join(' ')); }
  }
  console.log(found.slice(0, 30).join('\n'));
});
