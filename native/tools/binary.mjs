// The requirements of a shared library to the machine that loads it, read by binutils.
import { execFileSync } from 'node:child_process';

function readelf(path, ...options) {
  return execFileSync('readelf', ['--wide', ...options, path], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
    maxBuffer: 2 ** 28,
  });
}

/** The highest version of glibc (null: it needs none), the libraries, whether it stays loaded, and whether its symbols are stripped. */
export function linksOf(path) {
  const dynamic = readelf(path, '--dynamic');
  const versions = [...readelf(path, '--version-info').matchAll(/GLIBC_([\d.]+)/g)].map(
    ([, version]) => version,
  );
  versions.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return {
    glibc: versions.at(-1) ?? null,
    libraries: [...dynamic.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map(([, name]) => name),
    keepsLoaded: /\bNODELETE\b/.test(dynamic),
    stripped: !/\.symtab\b/.test(readelf(path, '--sections')),
  };
}
