// Mooncake, Azure and BurstGPT traces are read as their formats say; bad lines are refused by line
// number.
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { readTrace, type TraceOptions } from '../../src/workload/trace.js';
import { useTempFiles } from '../support/temp-file.js';

const write = useTempFiles();

/** A good Mooncake line, with members replaced. */
function line(members: Record<string, unknown> = {}): string {
  return JSON.stringify({ timestamp: 0, input_length: 600, output_length: 5, hash_ids: [1, 2], ...members });
}

/** The fault in a trace of this content, without the folder's name. */
async function problem(name: string, content: string, options?: TraceOptions): Promise<string> {
  const file = write(name, content);
  const error: unknown = await readTrace(file, options).then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ name: 'BlockstepError', code: 'ERR_BLOCKSTEP_BAD_TRACE' });
  const { message } = error as Error;
  expect(message.startsWith(file)).toBe(true);
  return message.slice(file.length - name.length);
}

describe('Mooncake traces', () => {
  it('reads every column', async () => {
    const file = write(
      'good.jsonl',
      `${line()}\n${line({ timestamp: 1500, input_length: 512, hash_ids: [9] })}\n`,
    );
    const { workload, format, skippedLines, zeroOutputs } = await readTrace(file);
    expect({ format, skippedLines, zeroOutputs }).toEqual({
      format: 'mooncake',
      skippedLines: 0,
      zeroOutputs: 0,
    });
    expect([...workload.arrivalMs]).toEqual([0, 1500]);
    expect([...workload.inputTokens]).toEqual([600, 512]);
    expect([...workload.outputTokens]).toEqual([5, 5]);
    expect(workload.maxTotalTokens).toBe(605);
  });

  it('makes prompts whose equal hash ids, and only those, have equal content', async () => {
    const rows = [
      line(),
      line({ input_length: 1024, hash_ids: [1, 2] }),
      line({ input_length: 1030, hash_ids: [7, 2, 1] }),
    ];
    const { workload } = await readTrace(write('ids.jsonl', rows.join('\n')));
    const [short, long, swapped] = [0, 1, 2].map((index) => workload.prompt(index));
    expect([short.length, long.length, swapped.length]).toEqual([600, 1024, 1030]);
    expect(long.subarray(0, 600)).toEqual(short);
    expect(swapped.subarray(512, 1024)).toEqual(long.subarray(512));
    expect(swapped.subarray(1024)).toEqual(long.subarray(0, 6));
    expect(swapped.subarray(0, 512)).not.toEqual(long.subarray(0, 512));
    expect(long.every((token) => token >= 0 && token < 2 ** 17)).toBe(true);
    expect(new Set(long).size).toBeGreaterThan(1000);
  });

  it.each([
    ['CRLF', `${line()}\r\n${line()}\r\n`],
    ['a byte order mark', `\ufeff${line()}\n${line()}`],
    ['blank lines', `\n${line()}\n   \n${line()}\n\n\r\n\n`],
    ['no line end at the end', `${line()}\n${line()}`],
    ['further members, line separators inside strings', `${line({ note: 'a\u2028b' })}\n${line()}`],
  ])('takes %s', async (_, content) => {
    expect((await readTrace(write('variant.jsonl', content))).workload.length).toBe(2);
  });

  it('keeps characters whole that read chunks cut, and counts lines across chunks', async () => {
    const padding = 'é'.repeat(1000);
    const rows = Array.from({ length: 200 }, () => line({ padding }));
    rows.push('oops');
    expect(await problem('long.jsonl', rows.join('\n'))).toBe(
      'long.jsonl:201: expected a JSON object, got "oops"',
    );
  });

  it('sorts by arrival and keeps the order of the file among equals', async () => {
    const times = [300, 100, 200, 100];
    const rows = times.map((timestamp, i) =>
      line({ timestamp, output_length: i + 1, hash_ids: [i, 10 + i] }),
    );
    const { workload } = await readTrace(write('order.jsonl', rows.join('\n')));
    expect([...workload.arrivalMs]).toEqual([0, 0, 100, 200]);
    expect([...workload.outputTokens]).toEqual([2, 4, 3, 1]);
    const alone = await readTrace(write('alone.jsonl', rows[0]));
    expect(workload.prompt(3)).toEqual(alone.workload.prompt(0));
  });

  it('replays an output length of 0 with 1, and counts it', async () => {
    const { workload, zeroOutputs } = await readTrace(write('zero.jsonl', line({ output_length: 0 })));
    expect([zeroOutputs, workload.outputTokens[0]]).toEqual([1, 1]);
  });

  it('grows beyond its first capacity', async () => {
    const rows = Array.from({ length: 3000 }, (_, i) => line({ timestamp: i, hash_ids: [i, i + 1] }));
    const { workload } = await readTrace(write('many.jsonl', rows.join('\n')));
    expect(workload.length).toBe(3000);
    expect(workload.prompt(2999).subarray(0, 88)).toEqual(workload.prompt(2998).subarray(512, 600));
  });

  it.each([
    [{ input_length: 'x' }, 'input_length: expected an integer >= 1, got "x"'],
    [{ input_length: 0 }, 'input_length: expected an integer >= 1, got 0'],
    [{ input_length: -3 }, 'input_length: expected an integer >= 1, got -3'],
    [{ input_length: 1.5 }, 'input_length: expected an integer >= 1, got 1.5'],
    [{ input_length: null }, 'input_length: expected an integer >= 1, got null'],
    [{ input_length: undefined }, 'input_length: expected an integer >= 1, got nothing'],
    [{ input_length: 2 ** 24 + 1 }, 'input_length: expected an integer <= 16777216, got 16777217'],
    [{ input_length: 1e21 }, 'input_length: expected an integer <= 16777216, got 1e+21'],
    [{ output_length: -1 }, 'output_length: expected an integer >= 0, got -1'],
    [{ output_length: [5] }, 'output_length: expected an integer >= 0, got [5]'],
    [{ timestamp: -1 }, 'timestamp: expected milliseconds from 0 to 2^53 - 1, got -1'],
    [{ timestamp: 1e300 }, 'timestamp: expected milliseconds from 0 to 2^53 - 1, got 1e+300'],
    [{ timestamp: '0' }, 'timestamp: expected milliseconds from 0 to 2^53 - 1, got "0"'],
    [{ hash_ids: undefined }, 'hash_ids: expected an array of integers, got nothing'],
    [{ hash_ids: [1] }, 'hash_ids: expected 2 ids for 600 input tokens (one per 512), got 1'],
    [{ hash_ids: [1, 2, 3] }, 'hash_ids: expected 2 ids for 600 input tokens (one per 512), got 3'],
    [{ hash_ids: [1, -2] }, 'hash_ids: expected an integer >= 0, got -2'],
    [{ hash_ids: [1, 2 ** 31] }, 'hash_ids: expected an integer <= 2147483647, got 2147483648'],
    [{ hash_ids: ['y'.repeat(100), 2] }, `hash_ids: expected an integer >= 0, got "${'y'.repeat(59)}...`],
  ])('refuses %j', async (members, message) => {
    const content = [line(), line(), line(members), 'not even looked at'].join('\n');
    expect(await problem('bad.jsonl', content)).toBe(`bad.jsonl:3:${message}`);
  });

  it.each([
    ['{"timestamp": 0,', '"{\\"timestamp\\": 0,"'],
    ['[1]', '[1]'],
    ['17', '17'],
    ['null', 'null'],
  ])('refuses a line %s', async (bad, shown) => {
    expect(await problem('bad.jsonl', `${line()}\n${bad}`)).toBe(
      `bad.jsonl:2: expected a JSON object, got ${shown}`,
    );
  });
});

const AZURE = 'TIMESTAMP,ContextTokens,GeneratedTokens';

describe('Azure traces', () => {
  it('reads times to the seventh decimal', async () => {
    const rows = [
      AZURE,
      '2023-11-16 23:59:59.9799601,4808,10',
      '2023-11-17 00:00:00.0000002,3180,8',
      '2023-11-17 00:00:01,1,1',
    ];
    const { workload, format } = await readTrace(write('azure.csv', rows.join('\r\n')));
    expect(format).toBe('azure');
    expect(workload.arrivalMs[1]).toBeCloseTo(20.0401, 9);
    expect(workload.arrivalMs[2]).toBeCloseTo(1020.0399, 9);
    expect([...workload.inputTokens]).toEqual([4808, 3180, 1]);
    expect([...workload.outputTokens]).toEqual([10, 8, 1]);
  });

  it('takes time zones, quotes and columns in any order', async () => {
    const rows = [
      '\ufeffNumImages,GeneratedTokens,"ContextTokens",TIMESTAMP',
      '0,7,"300","2024-05-10T12:00:00.5+02:00"',
      '0,8,301,2024-05-10 05:00:01-05:00',
    ];
    const { workload } = await readTrace(write('azure2.csv', rows.join('\n')));
    expect([...workload.arrivalMs]).toEqual([0, 500]);
    expect([...workload.inputTokens]).toEqual([300, 301]);
  });

  it('shares nothing between prompts, and makes them from the seed', async () => {
    const file = write('share.csv', `${AZURE}\n2023-11-16 18:17:03,600,1\n2023-11-16 18:17:04,600,1\n`);
    const [zero, one] = [await readTrace(file), await readTrace(file, { seed: 1 })];
    expect(zero.workload.prompt(0)).toEqual((await readTrace(file, { seed: 0 })).workload.prompt(0));
    expect(zero.workload.prompt(0).subarray(0, 16)).not.toEqual(zero.workload.prompt(1).subarray(0, 16));
    expect(zero.workload.prompt(0).subarray(0, 16)).not.toEqual(one.workload.prompt(0).subarray(0, 16));
  });

  const time = 'expected a time like 2023-11-16 18:17:03.9799600';
  it.each([
    ['yesterday,1,1', `TIMESTAMP: ${time}, got "yesterday"`],
    ['2023-13-16 18:17:03,1,1', `TIMESTAMP: ${time}, got "2023-13-16 18:17:03"`],
    ['2023-02-30 18:17:03,1,1', `TIMESTAMP: ${time}, got "2023-02-30 18:17:03"`],
    ['2023-11-16 24:00:00,1,1', `TIMESTAMP: ${time}, got "2023-11-16 24:00:00"`],
    ['2023-11-16 18:17:03,,1', 'ContextTokens: expected an integer >= 1, got ""'],
    ['2023-11-16 18:17:03,0,1', 'ContextTokens: expected an integer >= 1, got "0"'],
    ['2023-11-16 18:17:03,12e3,1', 'ContextTokens: expected an integer >= 1, got "12e3"'],
    [
      '2023-11-16 18:17:03,99999999999,1',
      'ContextTokens: expected an integer <= 16777216, got "99999999999"',
    ],
    ['2023-11-16 18:17:03,1,-1', 'GeneratedTokens: expected an integer >= 0, got "-1"'],
    ['2023-11-16 18:17:03,1,1.0', 'GeneratedTokens: expected an integer >= 0, got "1.0"'],
  ])('refuses %s', async (row, message) => {
    const content = [AZURE, '2023-11-16 18:17:03.9799600,4808,10', '', row].join('\n');
    expect(await problem('bad.csv', content)).toBe(`bad.csv:4:${message}`);
  });

  it.each([
    ['2023-11-16 18:17:03,1', 'expected 3 columns, got 2'],
    ['2023-11-16 18:17:03,1,1,1', 'expected 3 columns, got 4'],
    ['2023-11-16 18:17:03,"1,1', 'expected a CSV record, got "2023-11-16 18:17:03,\\"1,1"'],
  ])('refuses %s as a whole', async (row, message) => {
    expect(await problem('bad.csv', `${AZURE}\n${row}`)).toBe(`bad.csv:2: ${message}`);
  });
});

const BURST = 'Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type';

describe('BurstGPT traces', () => {
  it.each([
    [
      'with sessions',
      [BURST, '5,s1,1.5,ChatGPT,472,18,490,Conversation log', '45.5,,,GPT-4,10,0,10,API log'],
    ],
    [
      'without sessions',
      [
        'Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type',
        '5,ChatGPT,472,18,490,Conversation log',
        '45.5,GPT-4,10,0,10,API log',
      ],
    ],
  ])('finds columns by name, %s', async (_, rows) => {
    const { workload, format, zeroOutputs } = await readTrace(write('burst.csv', rows.join('\n')));
    expect([format, zeroOutputs]).toEqual(['burstgpt', 1]);
    expect([...workload.arrivalMs]).toEqual([0, 40_500]);
    expect([...workload.inputTokens]).toEqual([472, 10]);
    expect([...workload.outputTokens]).toEqual([18, 1]);
  });

  it.each([
    ['-5', 'expected seconds >= 0, got "-5"'],
    ['', 'expected seconds >= 0, got ""'],
    ['9'.repeat(40), `expected seconds >= 0, got "${'9'.repeat(40)}"`],
  ])('refuses the time %s', async (time, message) => {
    expect(await problem('bad.csv', `${BURST}\n${time},,,m,1,1,2,l`)).toBe(`bad.csv:2:Timestamp: ${message}`);
  });
});

describe('any trace', () => {
  it('refuses a header that lacks a column, --skip-bad or not', async () => {
    const content = 'TIMESTAMP,ContextTokens,Generated\n';
    const message =
      'cut.csv:1:GeneratedTokens: expected a column of this name, got "TIMESTAMP", "ContextTokens", "Generated"';
    expect(await problem('cut.csv', content)).toBe(message);
    expect(await problem('cut.csv', content, { skipBad: true })).toBe(message);
  });

  it('refuses what it cannot tell, unless the format is given', async () => {
    expect(await problem('odd.txt', '\nhello\n')).toBe(
      'odd.txt:2: expected a JSON object or a CSV header with ContextTokens or Request tokens, ' +
        'got "hello" (--format names the format)',
    );
    expect(await problem('odd.txt', 'hello\n', { format: 'mooncake' })).toBe(
      'odd.txt:1: expected a JSON object, got "hello"',
    );
    expect(await problem('odd.txt', `${AZURE}\n`, { format: 'burstgpt' })).toBe(
      'odd.txt:1:Timestamp: expected a column of this name, got "TIMESTAMP", "ContextTokens", "GeneratedTokens"',
    );
  });

  it.each([
    ['empty', '', 1],
    ['blank', '\n\n', 3],
  ])('refuses an %s file', async (_, content, at) => {
    expect(await problem('none.jsonl', content)).toBe(
      `none.jsonl:${at}: expected at least one request, got none`,
    );
  });

  it('refuses a file with nothing but a header', async () => {
    expect(await problem('none.csv', `${AZURE}\n`)).toBe(
      'none.csv:2: expected at least one request, got none',
    );
  });

  it('refuses a file that is not there, and a folder', async () => {
    await expect(readTrace('/no/such/trace.jsonl')).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_BAD_FILE',
      message: '/no/such/trace.jsonl: cannot be read: ENOENT',
    });
    await expect(readTrace(tmpdir())).rejects.toThrow(`${tmpdir()}: cannot be read: EISDIR`);
  });

  it('refuses a line without end', async () => {
    expect(await problem('endless.jsonl', 'x'.repeat(2 ** 24 + 2 ** 17))).toBe(
      'endless.jsonl:1: expected a line of at most 16777216 characters',
    );
  });

  it('skips and counts bad lines when it is told to', async () => {
    const content = [line({ input_length: 0 }), line(), 'oops', line(), ''].join('\n');
    const file = write('skip.jsonl', content);
    const { workload, skippedLines, firstSkipped } = await readTrace(file, {
      format: 'mooncake',
      skipBad: true,
    });
    expect([workload.length, skippedLines]).toEqual([2, 2]);
    expect(firstSkipped).toBe(`${file}:1:input_length: expected an integer >= 1, got 0`);
    expect(await problem('all.jsonl', '{}\n{}\n', { skipBad: true })).toBe(
      'all.jsonl:3: expected at least one good request, skipped all 2 lines',
    );
  });

  it('does not look beyond the limit', async () => {
    const content = [line(), line(), 'oops'].join('\n');
    expect((await readTrace(write('limit.jsonl', content), { limit: 2 })).workload.length).toBe(2);
  });

  it('stops reading when the signal is aborted', async () => {
    const file = write('signal.jsonl', Array.from({ length: 2000 }, () => line()).join('\n'));
    await expect(readTrace(file, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    });
  });
});
