// The folders of `node_modules` that a set of packages needs on a platform.

/** The entry of package-lock.json for one folder of node_modules. */
interface LockedPackage {
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
  os?: string[];
  cpu?: string[];
  libc?: string[];
}

export interface Lock {
  packages: Record<string, LockedPackage>;
}

/** As process.platform and process.arch say it; on Linux with its C library. */
export interface Platform {
  os: string;
  cpu: string;
  libc: 'glibc' | 'musl' | null;
}

/**
 * The folders of node_modules that these packages need on this platform, sorted: their dependencies of every depth, as npm
 * has laid them out. Optional ones that do not fit the platform are left out, and so are optional peers.
 * @throws Error naming a package that the lock does not have
 */
export function packageClosure(lock: Lock, roots: Iterable<string>, platform: Platform): string[] {
  const found = new Set<string>();
  const add = (folder: string): void => {
    if (found.has(folder)) return;
    found.add(folder);
    const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } =
      lock.packages[folder];
    const optional = new Set(Object.keys(optionalDependencies ?? {}));
    const peers = Object.keys(peerDependencies ?? {}).filter(
      (name) => !peerDependenciesMeta?.[name]?.optional,
    );
    for (const name of new Set([...Object.keys(dependencies ?? {}), ...optional, ...peers])) {
      const place = placeOf(lock, folder, name);
      if (place === null && !optional.has(name))
        throw new Error(`${folder} needs ${name}, which the lock does not have`);
      if (place !== null && (!optional.has(name) || fits(lock.packages[place], platform))) add(place);
    }
  };
  for (const name of roots) {
    const place = placeOf(lock, '', name);
    if (place === null) throw new Error(`the lock does not have ${name}`);
    add(place);
  }
  return [...found].sort();
}

/** Where Node finds a package from a folder: in its own node_modules, or in the nearest one above. */
function placeOf(lock: Lock, folder: string, name: string): string | null {
  for (let from = folder; ; from = from.slice(0, Math.max(0, from.lastIndexOf('/node_modules/')))) {
    const place = `${from === '' ? '' : `${from}/`}node_modules/${name}`;
    if (lock.packages[place] !== undefined) return place;
    if (from === '') return null;
  }
}

function fits({ os, cpu, libc }: LockedPackage, platform: Platform): boolean {
  const allows = (list: string[] | undefined, value: string | null): boolean =>
    list === undefined || value === null || (list.includes(value) && !list.includes(`!${value}`));
  return allows(os, platform.os) && allows(cpu, platform.cpu) && allows(libc, platform.libc);
}
