// An output file appears when it is complete, and a failure leaves nothing behind.
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../src/base/errors.js';
import { OutputFile } from '../../src/report/output-file.js';
import { useTempFiles } from '../support/temp-file.js';

const write = useTempFiles();
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A new empty folder. */
function folder(name: string): string {
  const path = join(dirname(write('x', '')), name);
  mkdirSync(path);
  return path;
}

function codeOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof BlockstepError) return error.code;
    throw error;
  }
  return 'nothing was thrown';
}

describe('an output file', () => {
  it('appears when it is whole, and not before', () => {
    const place = folder('whole');
    const path = join(place, 'page.html');
    writeFileSync(path, 'old');
    const file = new OutputFile(path);
    file.write(bytes('new '));
    file.write(bytes('text'));
    expect(readFileSync(path, 'utf8')).toBe('old');
    file.commit();
    file.discard();
    expect(readFileSync(path, 'utf8')).toBe('new text');
    expect(readdirSync(place)).toEqual(['page.html']);
  });

  it('leaves nothing behind when it is given up, and the old one as it was', () => {
    const place = folder('discarded');
    const path = join(place, 'page.html');
    writeFileSync(path, 'old');
    const file = new OutputFile(path);
    file.write(bytes('new'));
    file.discard();
    file.discard();
    expect(readdirSync(place)).toEqual(['page.html']);
    expect(readFileSync(path, 'utf8')).toBe('old');
  });

  it('replaces what a link leads to, not the link', () => {
    const place = folder('linked');
    const [link, target] = [join(place, 'link'), join(place, 'target')];
    writeFileSync(target, 'old');
    symlinkSync(target, link);
    const file = new OutputFile(link);
    file.write(bytes('new'));
    file.commit();
    expect(readFileSync(target, 'utf8')).toBe('new');
    expect(readFileSync(link, 'utf8')).toBe('new');
  });

  it.each([
    ['a folder', (place: string) => place],
    ['a folder that is missing', (place: string) => join(place, 'no', 'file')],
    ['a file as a folder', () => join(write('plain', ''), 'file')],
    ['a device', () => '/dev/null'],
    ['nothing', () => ''],
    ['a name for a folder', (place: string) => `${place}/new/`],
    ['a name with a NUL', (place: string) => `${place}/a\0b`],
    ['a name that is too long', (place: string) => join(place, 'n'.repeat(5000))],
  ])('refuses %s', (what, path) => {
    const place = folder(`refuses ${what}`);
    expect(codeOf(() => new OutputFile(path(place)))).toBe('ERR_BLOCKSTEP_BAD_FILE');
    expect(readdirSync(place)).toEqual([]);
    expect(existsSync('/dev/null')).toBe(true);
  });

  it('leaves nothing behind when it cannot be given its name', () => {
    const place = folder('blocked');
    const path = join(place, 'page.html');
    const file = new OutputFile(path);
    // Meanwhile somebody made a folder of that name.
    mkdirSync(join(path, 'inside'), { recursive: true });
    expect(codeOf(() => file.commit())).toBe('ERR_BLOCKSTEP_BAD_FILE');
    expect(readdirSync(place)).toEqual(['page.html']);
  });
});
