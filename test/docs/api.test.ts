// Compares the exports of each entry point of the package with their report in `api/`; `--update`
// writes the reports.
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { entryPoints } from '../support/entry-points.js';
import { ROOT, read } from './declarations.js';

/** The entry points of the package: the name behind `blockstep`, and the source. */
const ENTRIES = [...entryPoints(read('package.json'))].map(([name, source]) => ({
  name: name.slice('blockstep/'.length),
  source,
}));

const config = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile).config as object;
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
const program = ts.createProgram(
  ENTRIES.map(({ source }) => join(ROOT, source)),
  options,
);
const checker = program.getTypeChecker();
const WHOLE = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseSingleQuotesForStringLiteralType;

/** Whether users see a member: it is neither private nor marked `@internal`. */
function isPublic(member: ts.Symbol): boolean {
  const { valueDeclaration: declaration } = member;
  if (member.getJsDocTags(checker).some(({ name }) => name === 'internal')) return false;
  if (declaration === undefined) return true;
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return (
    (ts.getCombinedModifierFlags(declaration) & hidden) === 0 &&
    !member.escapedName.toString().startsWith('__#')
  );
}

/**
 * The public members of a class or an interface, each with its type, inherited members included.
 */
function members(type: ts.Type): string[] {
  return checker
    .getPropertiesOfType(type)
    .filter(isPublic)
    .map((member) => {
      const optional = (member.flags & ts.SymbolFlags.Optional) !== 0 ? '?' : '';
      // A symbol has a number in its name, which may change with anything.
      const name = member.name.replace(/^__@(\w+)@\d+$/, '[$1]');
      return `  ${name}${optional}: ${checker.typeToString(checker.getTypeOfSymbol(member), undefined, WHOLE)};`;
    })
    .sort();
}

/** One exported name, with all that a user can see of it. */
function describeExport(exported: ts.Symbol): string[] {
  const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
  const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported;
  const lines: string[] = [];
  if ((symbol.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface)) !== 0) {
    const kind = (symbol.flags & ts.SymbolFlags.Class) !== 0 ? 'class' : 'interface';
    lines.push(`${kind} ${exported.name} {`, ...members(checker.getDeclaredTypeOfSymbol(symbol)), '}');
  } else if ((symbol.flags & ts.SymbolFlags.TypeAlias) !== 0) {
    const flags = WHOLE | ts.TypeFormatFlags.InTypeAlias;
    const type = checker.typeToString(checker.getDeclaredTypeOfSymbol(symbol), undefined, flags);
    lines.push(`type ${exported.name} = ${type};`);
  }
  if ((symbol.flags & (ts.SymbolFlags.Function | ts.SymbolFlags.Variable)) !== 0) {
    const type = checker.getTypeOfSymbol(symbol);
    lines.push(`const ${exported.name}: ${checker.typeToString(type, undefined, WHOLE)};`);
  }
  return lines;
}

function report(source: string): string {
  const module = checker.getSymbolAtLocation(program.getSourceFile(join(ROOT, source)) as ts.Node);
  const names = checker.getExportsOfModule(module as ts.Symbol).sort((a, b) => (a.name < b.name ? -1 : 1));
  return `\`\`\`ts\n${names.flatMap(describeExport).join('\n')}\n\`\`\`\n`;
}

describe('the reports of the public API', () => {
  it.each(ENTRIES)('say what blockstep/$name exports', async ({ name, source }) => {
    // After a change that is meant: npx vitest run --config test/vitest.config.ts test/docs/api.test.ts --update
    const file = name === '' ? 'root' : name.replaceAll('/', '-');
    await expect(report(source)).toMatchFileSnapshot(`api/${file}.md`);
  });
});
