// The newest glibc that a file needs.

/** The newest version of glibc that `readelf --version-info` names; null if it names none. */
export function newestGlibc(listing: string): string | null {
  const versions = [...listing.matchAll(/GLIBC_([\d.]+)/g)].map(([, version]) => version);
  versions.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return versions.at(-1) ?? null;
}
