// Reads fields, unions and comments out of source files, and compiles the programs of the pages.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

function parse(path: string): ts.SourceFile {
  return ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest, true);
}

function declaration(path: string, name: string): ts.Node {
  const found = parse(path).statements.find(
    (statement) => 'name' in statement && (statement.name as ts.Identifier | undefined)?.text === name,
  );
  if (found === undefined) throw new Error(`${path} declares no ${name}`);
  return found;
}

/** The fields of an interface or class that a source file declares, each with the text of its declaration, comment included. */
export function fieldsOf(
  path: string,
  name: string,
): Map<string, ts.PropertySignature | ts.PropertyDeclaration> {
  const { members } = declaration(path, name) as ts.InterfaceDeclaration | ts.ClassDeclaration;
  const fields = [...members].filter(
    (member) => ts.isPropertySignature(member) || ts.isPropertyDeclaration(member),
  );
  return new Map(fields.map((field) => [(field.name as ts.Identifier).text, field]));
}

/** The names of the fields of a field whose type is written out. */
export function fieldsInside({ type }: ts.PropertySignature | ts.PropertyDeclaration): string[] {
  if (type === undefined || !ts.isTypeLiteralNode(type)) throw new Error('no type that is written out');
  return type.members.map((member) => (member.name as ts.Identifier).text);
}

/** The words of a union of string literals. */
export function wordsOf(path: string, name: string): string[] {
  const { type } = declaration(path, name) as ts.TypeAliasDeclaration;
  return (type as ts.UnionTypeNode).types.map(
    (one) => ((one as ts.LiteralTypeNode).literal as ts.StringLiteral).text,
  );
}

/** Everything that does not compile in these texts, were they files of the test folder; `blockstep` is this tree. */
export function compile(texts: ReadonlyMap<string, string>): string[] {
  const config = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile).config as object;
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  const files = new Map([...texts].map(([name, text]) => [join(ROOT, 'test', name), text]));
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path) ?? readFile(path);
  host.getSourceFile = (path, language, ...rest) => {
    const text = files.get(path);
    return text === undefined
      ? getSourceFile(path, language, ...rest)
      : ts.createSourceFile(path, text, language);
  };
  // A sketch may declare more than it uses.
  const lenient = { ...options, noUnusedLocals: false, noUnusedParameters: false, noEmit: true };
  const program = ts.createProgram([...files.keys()], lenient, host);
  return [...files.keys()].flatMap((path) => {
    const source = program.getSourceFile(path);
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    return found.map(({ messageText, start }) => {
      const line = source === undefined ? 0 : source.getLineAndCharacterOfPosition(start ?? 0).line + 1;
      return `${path.split('/').at(-1)}:${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
    });
  });
}
