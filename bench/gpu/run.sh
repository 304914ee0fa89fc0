#!/usr/bin/env bash
# Checks and measures blockstep on a GPU host: `run --help` says how. Needs bash, python3, cmake, a C++ compiler and nvcc; no
# network and no Node. Unpacks this bundle into a temporary folder, which is removed at the end; this one is only read. With
# BLOCKSTEP_TREE=DIR it unpacks there and leaves it, so that the next call need not build the programs anew.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -n "${BLOCKSTEP_TREE:-}" ]; then
  mkdir -p "$BLOCKSTEP_TREE"
  tree=$(cd "$BLOCKSTEP_TREE" && pwd)
else
  tree=$(mktemp -d "${TMPDIR:-/tmp}/blockstep-gpu-XXXXXX")
  trap 'rm -rf "$tree"' EXIT
fi

# Python needs no xz for this.
[ -e "$tree/unpacked" ] || python3 - "$here" "$tree" <<'PY' || { echo 'run: python3 could not unpack the bundle' >&2; exit 1; }
import pathlib
import sys
import tarfile

for path in sorted(pathlib.Path(sys.argv[1]).glob('*.tar.xz')):
    with tarfile.open(path, 'r:xz') as archive:
        archive.extractall(sys.argv[2])
PY
touch "$tree/unpacked"
# All files are equally old. The addon on the emulated GPU must be newer than its sources, or the suites build it anew.
touch "$tree/native/build-emulated/Release/blockstep.node"

"$tree/node" "$tree/build/bench/bench/gpu/main.js" "$@" &
node=$!
trap 'kill -TERM "$node"' INT TERM
status=0
wait "$node" || status=$?
# A signal ends the wait, and not what is waited for.
if kill -0 "$node" 2>/dev/null; then wait "$node" || status=$?; fi
exit "$status"
