// Files are read as they were written; truncated or damaged files are refused, at any place.
import { readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Random } from '../../../../src/base/random.js';
import { readGguf } from '../../../../src/executors/llama-cpp/gguf/gguf-file.js';
import { readModelCard } from '../../../../src/executors/llama-cpp/gguf/model-card.js';
import { BlockstepError } from '../../../../src/index.js';
import { GgufFile } from '../../../support/gguf/gguf-file.js';
import { writeModelParts, writeRandomModel } from '../../../support/gguf/random-model.js';
import { useTempFiles } from '../../../support/temp-file.js';

const write = useTempFiles();

/** The bytes of a file that an edit of a small one makes. */
function bytesOf(edit: (file: GgufFile) => void, version?: number): Buffer {
  const path = write('edited.gguf', '');
  const file = new GgufFile();
  edit(file);
  file.write(path, version);
  return readFileSync(path);
}

const small = (file: GgufFile): void => {
  file.text('general.architecture', 'llama');
  file.texts('names', ['a', 'b']);
  file.tensor('weights', [32, 2], 'Q8_0', (weights) => weights.fill(1));
};

function refusalOf(content: Buffer | string): BlockstepError {
  const path = write('refused.gguf', content);
  try {
    readGguf(path);
  } catch (error) {
    expect(error).toBeInstanceOf(BlockstepError);
    expect((error as BlockstepError).code).toBe('ERR_BLOCKSTEP_BAD_MODEL');
    expect((error as Error).message).toContain(path);
    return error as BlockstepError;
  }
  throw new Error('it was read');
}

describe('a GGUF file', () => {
  it('is read as it was written', () => {
    const path = write('whole.gguf', bytesOf(small));
    const { version, values, tensors, weightBytes } = readGguf(path);
    expect({ version, values: [...values], weightBytes }).toEqual({
      version: 3,
      values: [
        ['general.architecture', 'llama'],
        ['names', ['a', 'b']],
      ],
      weightBytes: 68,
    });
    expect(tensors).toEqual([
      { name: 'weights', shape: [32, 2], type: { name: 'Q8_0', weights: 32, bytes: 34 }, bytes: 68 },
    ]);
  });

  it('keeps of a long list the length alone, and reads on behind it', () => {
    const tokens = Array.from({ length: 5000 }, (_, i) => `token ${i}`);
    const content = bytesOf((file) => {
      file.texts('tokens', tokens);
      file.f32s('scores', tokens.map(Number));
      file.u32('behind', 7);
    });
    const { values } = readGguf(write('long.gguf', content));
    expect([...values]).toEqual([
      ['tokens', { length: 5000 }],
      ['scores', { length: 5000 }],
      ['behind', 7],
    ]);
  });

  it('has the bytes that its tensors say', () => {
    const path = write('model.gguf', '');
    writeRandomModel(path, { weights: 'Q8_0' });
    const { weightBytes } = readGguf(path);
    const { size } = statSync(path);
    expect(weightBytes).toBeLessThan(size);
    expect(weightBytes).toBeGreaterThan(0.9 * size);
  });

  it('may have several parts, all of which are read', () => {
    const prefix = write('parts', '');
    const paths = writeModelParts(prefix, 3);
    const whole = write('one.gguf', '');
    writeRandomModel(whole);
    const { tensors, weightBytes } = readGguf(whole);
    expect(readGguf(paths[0])).toMatchObject({ path: paths[0], tensors, weightBytes });
    expect(readModelCard(readGguf(paths[0]))).toMatchObject({ weightBytes, numLayers: 4 });
    expect(() => readGguf(paths[1])).toThrow(
      /is part 2 of 3; name the first part, with the others beside it/,
    );
    const other = writeModelParts(write('other', ''), 2);
    renameSync(other[1], paths[1]);
    expect(() => readGguf(paths[0])).toThrow(/parts-00002-of-00003\.gguf is not part 2 of 3 of the model/);
    rmSync(paths[1]);
    expect(() => readGguf(paths[0])).toThrow(/parts-00002-of-00003\.gguf does not exist/);
  });

  it('may have version 2 of the format', () => {
    expect(readGguf(write('second.gguf', bytesOf(small, 2))).version).toBe(2);
  });
});

describe('a file that cannot be a model', () => {
  it('is refused if it is not there, or no file', () => {
    const path = write('there.gguf', '');
    const folder = path.slice(0, path.lastIndexOf('/'));
    expect(() => readGguf(`${path}x`)).toThrow(/there\.ggufx does not exist$/);
    expect(() => readGguf(folder)).toThrow(/ is not a file$/);
  });

  it.each([
    ['empty', () => '', /is not a GGUF file: it has 0 bytes/],
    [
      'of another format',
      () => 'PK\u0003\u0004 and much more of the kind',
      /it begins with "PK\\u0003\\u0004", not "GGUF"/,
    ],
    [
      'of the first version',
      () => bytesOf(small, 1),
      /has version 1 of the format; versions 2 and 3 can be read/,
    ],
    ['of a later version', () => bytesOf(small, 4), /has version 4 of the format/],
    [
      'of a machine with another order of bytes',
      () => bytesOf(small, 3 * 2 ** 24),
      /that put the high byte first/,
    ],
    [
      'one of several parts, by another name',
      () => bytesOf((file) => file.u32('split.count', 3)),
      /is one of 3 parts, and is not named NAME-00001-of-00003\.gguf/,
    ],
    [
      'with an alignment of nothing',
      () => bytesOf((file) => file.u32('general.alignment', 0)),
      /general\.alignment/,
    ],
  ])('is refused if it is %s', (_, content, says) => {
    expect(refusalOf(content()).message).toMatch(says);
  });

  it('is refused wherever it is cut off', () => {
    const whole = bytesOf(small);
    // Behind the last weight there is padding, which nobody needs.
    const end = whole.length - 28;
    expect(readGguf(write('just.gguf', whole.subarray(0, end))).tensors).toHaveLength(1);
    for (let length = 0; length < end; length++) refusalOf(whole.subarray(0, length));
    expect(refusalOf(whole.subarray(0, end - 1)).message).toMatch(
      /is cut off or damaged: its weights end at byte \d+, and the file has \d+ bytes; copy or download it again$/,
    );
  });

  it('is refused, or read, but never breaks anything, whatever its bytes are', () => {
    const random = new Random(7);
    const whole = bytesOf(small);
    let read = 0;
    for (let life = 0; life < 800; life++) {
      const content = Buffer.from(whole);
      for (let i = random.below(4); i >= 0; i--)
        content[random.below(content.length)] = random.below(3) === 0 ? 0xff : random.below(256);
      try {
        readModelCard(readGguf(write('damaged.gguf', content)));
        read++;
      } catch (error) {
        expect(error, `life ${life}`).toMatchObject({ code: 'ERR_BLOCKSTEP_BAD_MODEL' });
      }
    }
    // The model says no sizes, so that no card can be made of it.
    expect(read).toBe(0);
  });

  it('is refused where a tensor is none', () => {
    const content = bytesOf(small);
    const at = content.indexOf('weights') + 'weights'.length;
    const damaged = (offset: number, value: number): Buffer => {
      const copy = Buffer.from(content);
      copy.writeUInt32LE(value, at + offset);
      return copy;
    };
    // How many dimensions there are, then two of 64 bits, then the type.
    expect(refusalOf(damaged(0, 5)).message).toMatch(/damaged: the tensor "weights" has 5 dimensions$/);
    expect(refusalOf(damaged(4, 33)).message).toMatch(/rows of 33 weights in "weights" are no Q8_0$/);
    expect(refusalOf(damaged(20, 31)).message).toMatch(/"weights", of type 31, which is not supported$/);
  });

  it('is refused where a long list is cut off', () => {
    const content = bytesOf((file) =>
      file.texts(
        'tokens',
        Array.from({ length: 5000 }, () => 'a'),
      ),
    );
    const at = content.indexOf('tokens') + 'tokens'.length + 16;
    // The first of the texts, which are left out, is to be longer than the file.
    content.writeBigUInt64LE(2n ** 30n, at);
    expect(refusalOf(content).message).toMatch(
      /1073741824 bytes are to follow at byte \d+, and there are \d+/,
    );
  });

  it('takes no memory for what it only promises', () => {
    const content = bytesOf((file) => file.texts('tokens', ['a']));
    const at = content.indexOf('tokens') + 'tokens'.length + 8;
    content.writeBigUInt64LE(2n ** 60n, at);
    expect(refusalOf(content).message).toMatch(/"tokens" must have 1152921504606847000 items/);
    content.writeBigUInt64LE(1n, at);
    content.writeBigUInt64LE(2n ** 40n, at + 8);
    expect(refusalOf(content).message).toMatch(/1099511627776 bytes are to follow/);
    // A file may be as large as it says, and have nothing in it.
    const path = write('hollow.gguf', content);
    truncateSync(path, 2 ** 28);
    content.writeBigUInt64LE(2n ** 27n, at + 8);
    writeFileSync(path, content, { flag: 'r+' });
    expect(() => readGguf(path)).toThrow(/134217728 bytes are to follow/);
  });
});
