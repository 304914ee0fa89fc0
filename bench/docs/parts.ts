// The programs whose printed tables go into docs/benchmarks.md.

/** A program of the benchmark whose tables are on the page as it prints them. */
export interface PartProgram {
  readonly name: string;
  /** As a reader runs it. */
  readonly command: string;
  /** The program below `bench/`, without an extension, and its arguments. */
  readonly script: string;
  readonly args: readonly string[];
  /** Arguments for a try. */
  readonly quick: readonly string[];
}

/** The output of one program, as a result holds it. */
export interface Part {
  readonly name: string;
  /** Its tables in Markdown; null if it could not run. */
  readonly tables: string | null;
  /** Why it could not. */
  readonly error: string | null;
  readonly seconds: number;
}

export const PARTS: readonly PartProgram[] = [
  part('serve', 'serve/main', '--rounds 3 --streams 64,256,1000', '--rounds 1 --streams 64 --seconds 1'),
  part('offload', 'connectors/offload/main', '', '--only real'),
  part('steps', 'connectors/steps', '--rounds 3', '--rounds 1 --quick --only lease'),
  {
    ...part('steps', 'connectors/steps', '--pause 0', '--pause 0 --rounds 1 --quick --only lease'),
    name: 'steps-without-pause',
  },
  part('store', 'connectors/store/main', '', 'loop'),
  part('lease', 'connectors/lease/hand-over', '15', '1'),
  part('pipeline', 'pipeline/main', '', ''),
];

/** The tables of production traces, where the files of these are given. */
export function tracePrograms(mooncake: string | undefined, azure: string | undefined): PartProgram[] {
  const trace = (name: string, file: string, ...args: string[]): PartProgram => {
    // On the page the file has no path of this machine.
    const program = part('offload', 'connectors/offload/main', ['--trace FILE', ...args].join(' '), '');
    const given = ['--trace', file, ...args];
    return { ...program, name, args: given, quick: [...given, '--limit', '200'] };
  };
  return [
    ...(mooncake === undefined
      ? []
      : ['4', '12'].map((host) => trace(`mooncake-${host}`, mooncake, '--slower', '4', '--host', host))),
    ...(azure === undefined ? [] : [trace('azure', azure)]),
  ];
}

function part(name: string, script: string, args: string, quick: string): PartProgram {
  const command = `npm run bench:${name}${args === '' ? '' : ` -- ${args}`}`;
  const list = (words: string): string[] => words.split(' ').filter((word) => word !== '');
  return { name, command, script, args: list(args), quick: list(quick) };
}

/**
 * The tables in a program's output, with their titles, without the line of the machine and the path
 * of a file.
 */
export function tablesOf(stdout: string): string {
  const blocks = stdout
    .trim()
    .split(/\n{2,}/)
    .map((block) => block.trim());
  const kept: string[] = [];
  for (const [i, block] of blocks.entries()) {
    if (block.startsWith('|')) kept.push(block);
    else if (blocks[i + 1]?.startsWith('|') && !/\d cores, node v/.test(block)) kept.push(`${block}:`);
  }
  return kept.join('\n\n');
}
