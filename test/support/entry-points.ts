/**
 * The sources of the package's entry points in `src`, by the names that its users import.
 * @param manifest the text of `package.json`
 */
export function entryPoints(manifest: string): ReadonlyMap<string, string> {
  const { exports } = JSON.parse(manifest) as { exports: Record<string, string | { default: string }> };
  return new Map(
    Object.entries(exports).flatMap(([path, face]): [string, string][] =>
      typeof face === 'string'
        ? []
        : [[`blockstep${path.slice(1)}`, face.default.replace(/^\.\/dist\/(.*)\.js$/, 'src/$1.ts')]],
    ),
  );
}
