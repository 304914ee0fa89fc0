// Arenas in other threads and processes: the same memory, and never another file.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { ReferenceExecutor } from '../../src/index.js';
import { type ArenaDescriptor, BlockArena, CompletionQueue, HostLane } from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { useCompiled } from '../misuse/process/compiled.js';
import { ids } from './support.js';

const SHAPE = { numBlocks: 4, bytesPerBlock: 4096 };
const script = (name: string): string => fileURLToPath(new URL(`process/${name}.mjs`, import.meta.url));
const isLinux = process.platform === 'linux';

/** How many files of shared arenas this process has open. */
function numFiles(): number {
  const links = readdirSync('/proc/self/fd').map((name) => {
    const path = `/proc/self/fd/${name}`;
    return existsSync(path) || name !== '' ? linkOf(path) : '';
  });
  return links.filter((link) => link.includes('memfd:blockstep-')).length;
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // the folder's own entry, which is gone by now
  }
}

describe('an arena in another thread', () => {
  const compiled = useCompiled();

  it('is the same memory', async () => {
    const arena = BlockArena.allocate(SHAPE);
    arena.block(2).fill(9);
    const options = { env: compiled.env, workerData: arena.descriptor };
    const worker = new Worker(script('attacher'), options);
    expect(await once(worker, 'message')).toEqual(['attached']);
    worker.postMessage(2);
    expect(await once(worker, 'message')).toEqual([9]);
    expect(arena.block(2)[1]).toBe(10);
    arena.dispose(); // the thread has its own share
    worker.postMessage(2);
    expect(await once(worker, 'message')).toEqual([9]);
    await worker.terminate();
  });

  it('can be had under its shape alone, and as long as somebody has it', () => {
    const arena = BlockArena.allocate(SHAPE);
    const { descriptor } = arena;
    expect(arena.descriptor).toBe(descriptor);
    const again = BlockArena.attach(JSON.parse(JSON.stringify(descriptor)) as ArenaDescriptor);
    again.block(1)[5] = 3;
    expect([arena.block(1)[5], again.place, again.descriptor.id]).toEqual([3, 'host', descriptor.id]);
    expect(codeOf(() => BlockArena.attach({ ...descriptor, numBlocks: 5 }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    arena.dispose();
    expect(again.block(1)[5]).toBe(3);
  });

  it('is refused for what describes no arena', () => {
    const { descriptor } = BlockArena.allocate(SHAPE);
    for (const wrong of [
      null,
      7,
      { ...descriptor, id: 'f00' },
      { ...descriptor, id: descriptor.id.toUpperCase().replace(/\d/g, 'G') },
      { ...descriptor, pid: 0 },
      { ...descriptor, file: -1 },
      { ...descriptor, place: 'moon' },
      { ...descriptor, numBlocks: 0 },
    ])
      expect(codeOf(() => BlockArena.attach(wrong as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const unknown = { ...descriptor, id: '0'.repeat(32) };
    expect(codeOf(() => BlockArena.attach(unknown))).toBe('ERR_BLOCKSTEP_LIMIT');
    expect(codeOf(() => BlockArena.allocate({ ...SHAPE, shared: 1 } as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => BlockArena.allocate({ ...SHAPE, shared: true, place: 'pinned' }))).toBe(
      'ERR_BLOCKSTEP_BAD_ARG',
    );
  });
});

describe.runIf(isLinux)('an arena in another process', () => {
  const compiled = useCompiled();
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  async function sharer(): Promise<{
    child: ChildProcess;
    arena: ArenaDescriptor;
    ask(block: number): Promise<number>;
  }> {
    const child = spawn(process.execPath, [script('sharer')], {
      env: compiled.env,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    children.push(child);
    const lines = createInterface({ input: child.stdout });
    const [line] = (await once(lines, 'line')) as [string];
    const ask = async (block: number): Promise<number> => {
      child.stdin.write(`${block}\n`);
      return Number((await once(lines, 'line'))[0]);
    };
    return { child, arena: JSON.parse(line) as ArenaDescriptor, ask };
  }

  it('is the same memory, for lanes too', async () => {
    const { arena, ask } = await sharer();
    using there = BlockArena.attach(arena);
    expect(there.block(1)[4095]).toBe(7);
    there.block(3)[0] = 5;
    expect(await ask(3)).toBe(5);
    using queue = new CompletionQueue();
    using here = BlockArena.allocate(SHAPE);
    using lane = new HostLane(queue, there, here);
    lane.flush(ids(lane.submit(ids(1), ids(0))));
    expect(here.block(0)).toEqual(new Uint8Array(4096).fill(7));
  });

  it('outlives the process that made it, and then nobody else finds it', async () => {
    const { child, arena } = await sharer();
    const before = numFiles();
    const there = BlockArena.attach(arena);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(there.block(1)[0]).toBe(7);
    expect(numFiles()).toBe(before + 1);
    there.dispose();
    expect(codeOf(() => BlockArena.attach(arena))).toBe('ERR_BLOCKSTEP_LIMIT');
  });

  it('is not mistaken for another file of that process', async () => {
    const { arena } = await sharer();
    const other = BlockArena.allocate({ ...SHAPE, shared: true });
    for (const wrong of [
      { ...arena, file: 0 },
      { ...arena, file: 1 },
      { ...arena, file: 2 ** 30 },
      { ...arena, file: null },
      { ...arena, pid: process.pid, file: other.descriptor.file },
      { ...arena, id: '0123456789abcdef'.repeat(2) },
      { ...arena, numBlocks: arena.numBlocks + 1 },
    ])
      expect(codeOf(() => BlockArena.attach(wrong))).toBe('ERR_BLOCKSTEP_LIMIT');
  });

  it('of an executor is its KV memory', () => {
    const sizes = { numBlocks: 4, blockSize: 4, maxNumSeqs: 1, maxModelLen: 8 };
    using executor = new ReferenceExecutor({ ...sizes, shareKv: true });
    using own = new ReferenceExecutor(sizes);
    expect([typeof executor.kv.descriptor.file, own.kv.descriptor.file]).toEqual(['number', null]);
    expect(linkOf(`/proc/self/fd/${executor.kv.descriptor.file}`)).toContain(executor.kv.descriptor.id);
    expect(codeOf(() => new ReferenceExecutor({ ...sizes, shareKv: 'yes' } as never))).toBe(
      'ERR_BLOCKSTEP_BAD_ARG',
    );
    const onGpu = { ...sizes, shareKv: true, device: 'cuda' };
    expect(codeOf(() => new ReferenceExecutor(onGpu))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('goes with its last user', () => {
    const before = numFiles();
    for (let i = 0; i < 50; i++) BlockArena.allocate({ ...SHAPE, shared: true }).dispose();
    expect(numFiles()).toBe(before);
    const shape = { numBlocks: 2 ** 20, bytesPerBlock: 2 ** 30, shared: true };
    expect(codeOf(() => BlockArena.allocate(shape))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
    expect(numFiles()).toBe(before);
  });
});
