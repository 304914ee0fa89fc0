// A method that is asynchronous and rejects costs one request.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { PATIENCE_MS } from '../support/waiting.js';

const script = scriptArguments(import.meta.url, 'process/async-connector');

/** Runs an engine of which this method is asynchronous and rejects, in a process of its own. */
function run(method: string): { status: number | null; stdout: string } {
  return spawnSync(process.execPath, [...script, method], { encoding: 'utf8', timeout: PATIENCE_MS });
}

describe('a method that is asynchronous and rejects costs one request, never the process', () => {
  const METHODS = {
    'connector.getNumNewMatchedTokens': 'ERR_BLOCKSTEP_REQUEST',
    'connector.updateConnectorOutput': 'length',
    'worker.startStores': 'length',
  };
  for (const [method, ended] of Object.entries(METHODS)) {
    it(method, () => {
      const { status, stdout } = run(method);
      expect(status).toBe(0);
      expect(JSON.parse(stdout)).toEqual({ ended, healthy: true });
    });
  }

  it('the same engine with no such method ends well', () => {
    const { status, stdout } = run('connector.none');
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ ended: 'length', healthy: true });
  });
});
