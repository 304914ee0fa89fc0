#!/usr/bin/env bash
# Checks and measures blockstep on a GPU host: `run --help` says how. Needs bash, python3 (or tar and xz), cmake, a C++ compiler
# and nvcc; no network and no Node. Unpacks this bundle into a temporary folder, below TMPDIR if that is set, which is removed at
# the end; this one is only read. With BLOCKSTEP_TREE=DIR it unpacks there and leaves it, so that the next call need not rebuild the
# programs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -n "${BLOCKSTEP_TREE:-}" ]; then
  mkdir -p "$BLOCKSTEP_TREE"
  tree=$(cd "$BLOCKSTEP_TREE" && pwd)
else
  tree=$(mktemp -d "${TMPDIR:-/tmp}/blockstep-gpu-XXXXXX")
  trap 'rm -rf "$tree"' EXIT
fi

# A Python may lack lzma, and a host xz.
unpack() {
  if python3 -c 'import lzma, tarfile' 2>/dev/null; then
    python3 - "$here" "$tree" <<'PY'
import pathlib
import sys
import tarfile

for path in sorted(pathlib.Path(sys.argv[1]).glob('*.tar.xz')):
    with tarfile.open(path, 'r:xz') as archive:
        archive.extractall(sys.argv[2])
PY
  elif command -v tar >/dev/null && command -v xz >/dev/null; then
    local archive
    for archive in "$here"/*.tar.xz; do xz -dc "$archive" | tar -xf - -C "$tree" || return; done
  else
    echo 'run: unpacking needs python3 with its module lzma, or tar and xz' >&2
    return 1
  fi
}

# Files that are already in the folder are of this very bundle.
contents=$(<"$here/contents.txt")
if ! [ -e "$tree/unpacked" ]; then
  unpack || { echo "run: the bundle could not be unpacked to $tree" >&2; exit 1; }
  printf '%s\n' "$contents" >"$tree/unpacked"
elif [ "$(<"$tree/unpacked")" != "$contents" ]; then
  echo "run: $tree has another bundle: give BLOCKSTEP_TREE an empty folder" >&2
  exit 3
fi
"$tree/node" --version >/dev/null || {
  echo "run: programs cannot be run in $tree: TMPDIR chooses another place, if it is mounted noexec" >&2
  exit 1
}
# All files are equally old. The addon on the emulated GPU must be newer than its sources, or the suites rebuild it.
touch "$tree/native/build-emulated/Release/blockstep.node"

"$tree/node" "$tree/build/bench/bench/gpu/main.js" "$@" &
node=$!
trap 'kill -TERM "$node"' INT TERM
status=0
wait "$node" || status=$?
# A signal ends the wait, and not what is waited for.
if kill -0 "$node" 2>/dev/null; then wait "$node" || status=$?; fi
exit "$status"
