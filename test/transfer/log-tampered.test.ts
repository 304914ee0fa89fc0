// A log with a connector whose records were changed is refused, naming the byte.
import { describe, expect, it } from 'vitest';
import { callEnds } from '../../src/cli/log/log-records.js';
import { BlockstepError } from '../../src/index.js';
import { type LogRecord, readLog, replayCommands, replayInputs } from '../../src/replay.js';
import { RecordKind } from '../../src/scheduler/log/log.js';
import { codeOf } from '../support/driver.js';
import { type Frame, frames } from '../support/recorded-log.js';
import { share } from '../support/share.js';
import { connected, recorded } from './recorded-life.js';

/** A record of JSON in place of the one at `at`; null: none. */
function replace(bytes: Uint8Array, { kind, at, end }: Frame, json: string | null): Uint8Array {
  const parts = [bytes.subarray(0, at)];
  if (json !== null) {
    const head = new Uint32Array([kind, json.length]);
    const text = Buffer.from(json.padEnd(Math.ceil(json.length / 4) * 4, '\0'));
    parts.push(new Uint8Array(head.buffer), text);
  }
  return new Uint8Array(Buffer.concat([...parts, bytes.subarray(end)]));
}

function jsonOf(bytes: Uint8Array, { at }: Frame): string {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(at + 4, true);
  return Buffer.from(bytes.subarray(at + 8, at + 8 + length)).toString();
}

describe('a log whose connector was tampered with', () => {
  const { bytes, life } = recorded(4, 120);
  const answers = frames(bytes).filter(({ kind }) => kind === RecordKind.connector);

  function tamper(edit: (json: string) => string | null): number {
    let refused = 0;
    for (const frame of answers) {
      const json = jsonOf(bytes, frame);
      const edited = edit(json);
      if (edited === json) continue;
      expect(
        codeOf(() => replayInputs(replace(bytes, frame, edited))),
        `${json} became ${edited}`,
      ).toBe('ERR_BLOCKSTEP_BAD_LOG');
      refused++;
    }
    return refused;
  }

  it.each<[string, (json: string) => string | null]>([
    ['a missing answer', () => null],
    ['another handle', (json) => json.replace(/"handle":(\d+)/, '"handle":1$1')],
    ['another question', (json) => json.replace('"metadata"', '"output"').replace('"new"', '"alloc"')],
    [
      'more tokens than there are',
      (json) => json.replace(/("numTokens":)\d+,"async":false/, '$199,"async":false'),
    ],
    ['a child that there is not', (json) => json.replace(/"child":\d/, '"child":7')],
    ['a child to wait for that there is not', (json) => json.replace(/("children":\[)\d/, '$17')],
  ])('is refused: %s', (_, edit) => {
    expect(tamper(edit)).toBeGreaterThan(2);
  });

  it('is refused: an answer too many, or behind commands', () => {
    for (const [i, frame] of answers.entries()) {
      if (i % 7 !== 0) continue;
      const own = bytes.slice(frame.at, frame.end);
      const twice = Buffer.concat([bytes.subarray(0, frame.end), own, bytes.subarray(frame.end)]);
      expect(codeOf(() => replayInputs(new Uint8Array(twice)))).toBe('ERR_BLOCKSTEP_BAD_LOG');
    }
    const { end } = frames(bytes).findLast(({ kind }) => kind === RecordKind.commands) as Frame;
    const own = bytes.slice(answers[0].at, answers[0].end);
    const late = Buffer.concat([bytes.subarray(0, end), own, bytes.subarray(end)]);
    expect(codeOf(() => replayInputs(new Uint8Array(late)))).toBe('ERR_BLOCKSTEP_BAD_LOG');
  });

  it('is refused: pins that do not apply, or that nobody has', () => {
    const pins = frames(bytes).filter(({ kind }) => kind === RecordKind.pins);
    expect(pins.length).toBeGreaterThan(3);
    for (const { at } of pins) {
      const damaged = bytes.slice();
      new DataView(damaged.buffer).setUint32(at + 12, 1e6, true);
      expect(codeOf(() => replayInputs(damaged))).toBe('ERR_BLOCKSTEP_BAD_LOG');
    }
    const [header] = frames(bytes);
    const without = replace(bytes, header, jsonOf(bytes, header).replace('"bindPins",', ''));
    expect(() => replayInputs(without)).toThrow(/no connector has pins/);
  });

  it('is refused: a header whose connector is none', () => {
    const [header] = frames(bytes);
    const json = JSON.parse(jsonOf(bytes, header)) as Record<string, unknown>;
    const good = json['connector'] as object;
    const wrong = [
      5,
      {},
      { ...good, methods: 'bindPins' },
      { ...good, reporters: [[]] },
      { ...good, protection: 'x' },
    ];
    for (const connector of wrong) {
      const damaged = replace(bytes, header, JSON.stringify({ ...json, connector }));
      expect(() => replayInputs(damaged)).toThrow(BlockstepError);
    }
    const without = replace(bytes, header, JSON.stringify({ ...json, connector: null }));
    expect(codeOf(() => replayInputs(without))).toBe('ERR_BLOCKSTEP_BAD_LOG');
  });

  it('is refused: reports for an update that is not there', () => {
    const { driver, log } = connected({});
    driver.add({ id: 'a', maxTokens: 3 });
    driver.schedule();
    const { plan, tokens, counts } = driver.inFlight[0];
    driver.scheduler.update(plan, { tokens, counts }, {});
    driver.scheduler.update(driver.scheduler.schedule(), { tokens, counts }, {});
    const all = frames(log.bytes);
    const [update] = all.filter(({ kind }) => kind === RecordKind.update);
    const next = all.find(({ kind, at }) => kind === RecordKind.schedule && at > update.at) as Frame;
    const missing = Buffer.concat([log.bytes.subarray(0, update.at), log.bytes.subarray(next.at)]);
    expect(() => replayInputs(new Uint8Array(missing))).toThrow(/reports for an update, followed by/);
    // Cut off behind the reports: the update never was.
    const cut = replayInputs(log.bytes.slice(0, update.at));
    expect(cut.stats()).toMatchObject({ step: 1, stepsInFlight: 1 });
  });

  it('or that was cut off anywhere is refused or run again up to there, and breaks in no other way', () => {
    const whole = replayCommands(bytes).commands;
    for (let length = 12; length < bytes.length; length += share(5, 1) * (1 + (length % 211))) {
      try {
        replayInputs(bytes.slice(0, length)).dispose();
      } catch (error) {
        expect(error).toMatchObject({ code: 'ERR_BLOCKSTEP_BAD_LOG' });
      }
    }
    const ends = callEnds(bytes);
    for (let i = 0; i < ends.length; i += share(27, 9)) {
      const part = bytes.slice(0, ends[i]);
      const { digest, commands } = replayCommands(part);
      expect(commands).toBeLessThanOrEqual(whole);
      using replayed = replayInputs(part);
      expect(replayed.digest()).toBe(digest);
    }
    expect(ends.length).toBeGreaterThan(30);
    expect(life.scheduler.stats().step).toBeGreaterThan(10);
  });

  it('is refused in each of its new records, naming the byte', () => {
    const kinds = [RecordKind.connector, RecordKind.transfers, RecordKind.fence, RecordKind.pins] as number[];
    for (const kind of kinds) {
      const { at } = frames(bytes).find((frame) => frame.kind === kind) as Frame;
      const damaged = bytes.slice();
      new DataView(damaged.buffer).setUint32(at + 4, 3, true);
      const read = (): LogRecord[] => [...readLog(damaged)];
      expect(read).toThrow(new RegExp(`at byte ${at + 8}`));
    }
  });
});
