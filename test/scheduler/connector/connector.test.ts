// The TypeScript types of a connector accept `connector/connector-contract.ts` and refuse mistakes.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { Driver, prompt } from '../../support/driver.js';
import { OneBlockConnector, OneBlockWorker } from './connector-contract.js';

const here = dirname(fileURLToPath(import.meta.url));

/** The compiler's messages on connector-contract.ts, under the repository's options. */
function diagnose(edit: (text: string) => string): string[] {
  const root = join(here, '..', '..', '..');
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'));
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, root);
  const file = join(here, 'connector-contract.ts');
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, ...rest) =>
    name === file
      ? ts.createSourceFile(name, edit(readFileSync(file, 'utf8')), rest[0])
      : read(name, ...rest);
  const program = ts.createProgram([file], options, host);
  const found = ts.getPreEmitDiagnostics(program, program.getSourceFile(file));
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

describe('the connector contract', () => {
  it('is met by a small connector, and forbids what would not work', () => {
    expect(diagnose((text) => text)).toEqual([]);
  });

  it('fails to compile where a connector breaks it', () => {
    const broken = diagnose((text) => text.replace("protection = 'own'", "protection = 'mine'"));
    expect(broken.join()).toMatch(/'protection' in type 'OneBlockConnector' is not assignable/);
  });

  it('speaks of the requests and plans of a scheduler', () => {
    const driver = new Driver();
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    const request = driver.request(handle);
    const [connector, worker] = [new OneBlockConnector(4), new OneBlockWorker()];
    expect(connector.getNumNewMatchedTokens(request, 0)).toEqual({ numTokens: 4, async: true });
    expect(connector.getNumNewMatchedTokens(request, 4)).toEqual({ numTokens: 0, async: false });
    const plan = driver.schedule();
    const blocks = driver.scheduler.core.blocks(request.slot);
    connector.updateStateAfterAlloc(request, [blocks], 4);
    const metadata = connector.buildMetadata(plan);
    expect(metadata).toEqual({ step: 0, loads: new Map([[handle, blocks[0]]]) });
    worker.startLoads(metadata);
    expect(worker.getFinished([]).finishedReceiving).toEqual([{ handle }]);
    driver.update();
    driver.run();
    const handOver = { blocks: [blocks], numTokens: 10, numSettledTokens: 10, readableFrom: -1 };
    const ended = connector.requestFinished(request, 'length', handOver);
    expect(ended).toEqual({ delayFree: true, transferParams: { handle } });
  });
});
