// Checks each page, then the links and programs of all pages.
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import type { AnomalyReason } from '../../src/base/anomaly-reason.js';
import { channels } from '../../src/base/channels.js';
import { defineReplayCommand } from '../../src/cli/replay/replay-command.js';
import { Anomalies, ERROR_CODES } from '../../src/index.js';
import { DEVIATIONS } from '../../src/scheduler/options/deviations.js';
import { resolveOptions } from '../../src/scheduler/options/resolve-options.js';
import { compile, fieldsInside, fieldsOf, ROOT, read, wordsOf } from './declarations.js';

const PAPERS = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync(join(ROOT, 'docs'), { encoding: 'utf8', recursive: true })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

/**
 * The texts in backquotes in the first cell of each row, below a heading and up to the next one.
 */
function rows(path: string, heading: string): Map<string, string> {
  const text = read(path);
  const from = text.indexOf(`\n${heading}\n`);
  if (from < 0) throw new Error(`${path} has no ${heading}`);
  const end = text.indexOf('\n#', from + heading.length + 1);
  const section = text.slice(from, end < 0 ? undefined : end);
  return new Map(
    [...section.matchAll(/^\| (`[^|]*`) \|(.*)\|$/gm)].flatMap(([, names, rest]) =>
      [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => [name, rest] as const),
    ),
  );
}

function entries(path: string): Map<string, string> {
  const parts = read(path).split(/^### /m).slice(1);
  return new Map(parts.map((part) => [part.slice(0, part.indexOf('\n')), part.split(/^## /m)[0]] as const));
}

describe('README.md', () => {
  const readme = read('README.md');

  it('is short, begins with a program, and says once what is unmeasured', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(161);
    expect(readme.match(/```\w*\n([^\n]*)/)?.[1]).toBe(
      "import { Engine, ReferenceExecutor } from 'blockstep';",
    );
    expect(readme.match(/unmeasured/gi)).toHaveLength(1);
  });
});

describe('docs/engine.md', () => {
  const page = 'docs/engine.md';
  const listed = rows(page, '### Of the scheduler');

  it('has every option', () => {
    const engine = fieldsOf('src/engine/state/options.ts', 'EngineOptions');
    expect([...rows(page, '### Of the engine').keys()].sort()).toEqual([...engine.keys()].sort());
    const scheduler = fieldsOf('src/scheduler/options/options.ts', 'SchedulerOptions');
    const placement = fieldsOf('src/core/placement.ts', 'PlacementOptions');
    expect([...listed.keys()].sort()).toEqual([...scheduler.keys(), ...placement.keys()].sort());
  });

  it('has the defaults of the options that have a plain one', () => {
    const config = resolveOptions({ numBlocks: 1024 });
    const values = Object.entries({ ...config, ...config.placement }).filter(
      ([name, value]) =>
        !['numBlocks', 'numRows', 'device'].includes(name) &&
        listed.has(name) &&
        /number|boolean|string/.test(typeof value),
    );
    expect(values.length).toBeGreaterThan(20);
    for (const [name, value] of values) {
      const shown =
        typeof value === 'number'
          ? value.toLocaleString('en')
          : typeof value === 'string'
            ? `\`${value}\``
            : `${value}`;
      expect([name, (listed.get(name) as string).split('|')[0].trim()]).toEqual([name, shown]);
    }
  });

  it('has every field of a request', () => {
    const request = fieldsOf('src/scheduler/request/request.ts', 'RequestInput');
    const stops = fieldsOf('src/scheduler/request/stop-conditions.ts', 'StopConditions');
    const text = read(page).split('\n## Requests\n')[1].split('\n- ')[0];
    for (const name of [...request.keys(), ...stops.keys()])
      expect(text).toMatch(new RegExp(`\`${name}[\`:]`));
  });
});

describe('docs/errors.md', () => {
  it('has an entry for every code, and no other', () => {
    expect([...entries('docs/errors.md').keys()].sort()).toEqual(Object.keys(ERROR_CODES).sort());
  });
});

describe('docs/guarantees.md', () => {
  const found = entries('docs/guarantees.md');

  it('has every deviation, in the order of the options', () => {
    expect([...found.keys()]).toEqual(DEVIATIONS);
  });

  it.each(DEVIATIONS)('says of %s what vLLM does, what we do, why, and the issue of vLLM', (name) => {
    const text = found.get(name) as string;
    for (const part of ['vLLM', 'blockstep', 'Why'])
      expect(text).toMatch(new RegExp(`^- \\*\\*${part}\\*\\*: \\S`, 'm'));
    const comment = fieldsOf('src/scheduler/options/deviations.ts', 'Deviations').get(name)!.getFullText();
    for (const [issue] of comment.matchAll(/#\d+/g)) expect(text).toContain(issue);
  });
});

describe('docs/metrics.md', () => {
  const page = 'docs/metrics.md';

  it('has every field of the statistics', () => {
    const engine = [
      ...fieldsOf('src/engine/inspect/engine-stats.ts', 'EngineStats').keys(),
      ...fieldsOf('src/engine/state/counters.ts', 'EngineCounters').keys(),
    ];
    expect([...rows(page, '### Of the engine').keys()].sort()).toEqual(engine.sort());
    const scheduler = [...fieldsOf('src/scheduler/inspect/stats.ts', 'SchedulerStats').keys()];
    expect([...rows(page, '### Of the scheduler').keys()].sort()).toEqual(scheduler.sort());
    const health = [...fieldsOf('src/engine/inspect/health.ts', 'EngineHealth').keys()];
    expect([...rows(page, '## Health').keys()]).toEqual(health);
  });

  it('has every channel with every field of its payload', () => {
    const payloads = fieldsOf('src/base/channels.ts', 'ChannelPayloads');
    const listed = rows(page, '## Diagnostics channels');
    expect([...listed.keys()].sort()).toEqual([...payloads.keys()].sort());
    expect(
      Object.values(channels)
        .map(({ name }) => name)
        .sort(),
    ).toEqual([...payloads.keys()].sort());
    for (const [name, payload] of payloads) {
      const [, cell] = /^ (.*) \|/.exec(listed.get(name) as string) ?? [];
      // Words in brackets explain a field.
      const fields = [...(cell ?? '').replace(/\([^)]*\)/g, '').matchAll(/`([^`]+)`/g)].map(
        ([, field]) => field,
      );
      expect([name, fields]).toEqual([name, fieldsInside(payload)]);
    }
  });

  it('has every anomaly, and says which are never thrown', () => {
    const reasons = wordsOf('src/base/anomaly-reason.ts', 'AnomalyReason');
    const listed = rows(page, '### Anomalies');
    expect([...listed.keys()]).toEqual(reasons);
    for (const reason of reasons) {
      const anomalies = new Anomalies(true);
      anomalies.report(reason as AnomalyReason, '');
      let thrown = false;
      try {
        anomalies.throwFirst();
      } catch {
        thrown = true;
      }
      expect([reason, thrown]).toEqual([reason, !listed.get(reason)?.includes('(never thrown)')]);
    }
  });
});

describe('docs/replay.md', () => {
  it('has every option of the command line, and no other', () => {
    const command = new Command();
    defineReplayCommand(command, { io: {} as never, args: [] }, () => {});
    const flags = command.options.flatMap(({ flags: text }) => text.match(/--[a-z-]+/g) ?? []);
    const listed = ['### Workload', '### Server', '### Output', '### Scheduler', '### Cost model'].flatMap(
      (heading) =>
        [...rows('docs/replay.md', heading)].flatMap(([name, rest]) => [
          name,
          ...(/also by vLLM/.test(rest) ? (rest.match(/--[a-z-]+/g) ?? []) : []),
        ]),
    );
    expect([...new Set(listed)].sort()).toEqual([...new Set([...flags, '--help'])].sort());
  });
});

describe('docs/benchmarks.md', () => {
  const text = read('docs/benchmarks.md');
  const [path] = /bench\/results\/[\w.-]+\.json/.exec(text) as RegExpExecArray;
  const { machine, rows: measured } = JSON.parse(read(path)) as {
    machine: { commit: string };
    rows: { group: string; name: string; value: number; latency?: Record<string, number> }[];
  };
  const cells = (line: string): string[] =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());

  it('has the figures of the steps from the result file that it names', () => {
    expect(text).toContain(machine.commit.slice(0, 8));
    const decodes = measured.filter(({ group }) => group === 'decode');
    expect(decodes.length).toBeGreaterThan(10);
    for (const { name, latency } of decodes) {
      const line = text.split('\n').find((one) => one.startsWith(`| ${name} |`) && cells(one).length === 6);
      const figures = ['min', 'p50', 'p90', 'p99'].map((key) => latency![key]);
      for (const [i, figure] of figures.entries())
        expect([name, Math.abs(Number(cells(line!)[i + 1]) / figure - 1) < 0.005]).toEqual([name, true]);
    }
  });

  it('has the figures of the engine from it', () => {
    for (const streams of [1, 64, 256, 1024]) {
      const line = text
        .split('\n')
        .find((one) => one.startsWith(`| ${streams} |`) && cells(one).length === 8);
      for (const [i, name] of ['bare scheduler', 'step', 'step with tables'].entries()) {
        const row = measured.find((one) => one.group === 'engine' && one.name === `${name}, ${streams}`);
        expect([name, Math.abs(Number(cells(line!)[i + 1]) / row!.value - 1) < 0.005]).toEqual([name, true]);
      }
    }
  });
});

describe('docs/README.md', () => {
  it('leads to every page', () => {
    const index = read('docs/README.md');
    const pages = PAPERS.filter((path) => path.startsWith('docs/') && path !== 'docs/README.md');
    expect(pages.length).toBeGreaterThan(20);
    expect(
      pages.filter(
        (path) =>
          !index.includes(`](${path.slice('docs/'.length)}`) && !index.includes(`/blob/main/${path})`),
      ),
    ).toEqual([]);
  });
});

describe('every paper', () => {
  /** The anchor that GitHub gives a heading. */
  const anchor = (heading: string): string =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-');

  it('has links that lead somewhere', () => {
    const dead = PAPERS.flatMap((path) =>
      [...read(path).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link]) => {
        // The repository's own files, by the address that works from the package too.
        const target = link.replace('https://github.com/blockstep/blockstep/blob/main/', `${ROOT}/`);
        if (/^[a-z]+:/.test(target)) return [];
        const [file, section] = target.split('#');
        const where = file.startsWith(ROOT) ? file : join(ROOT, normalize(join(dirname(path), file)));
        const to = file === '' ? join(ROOT, path) : where;
        if (!existsSync(to)) return [`${path}: ${link}`];
        if (section === undefined) return [];
        const headings = [...read(to.slice(ROOT.length)).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
          anchor(heading),
        );
        return headings.includes(section) ? [] : [`${path}: ${link}`];
      }),
    );
    expect(dead).toEqual([]);
  });

  it('has programs that compile, or says that they are fragments', () => {
    const blocks = new Map<string, string>();
    for (const path of PAPERS) {
      for (const [i, [, info, text]] of [
        ...read(path).matchAll(/^ *```(ts\b[^\n]*)\n([\s\S]*?)^ *```/gm),
      ].entries()) {
        expect([path, info]).toEqual([path, expect.stringMatching(/^ts( fragment)?$/)]);
        if (info === 'ts') blocks.set(`${path.replaceAll('/', '-')}-${i}.mts`, text);
      }
    }
    expect(blocks.size).toBeGreaterThan(4);
    expect(compile(blocks)).toEqual([]);
  });
});
