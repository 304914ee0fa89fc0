#!/usr/bin/env bash
# The native addon under sanitizers. AddressSanitizer and UndefinedBehaviorSanitizer run with all of
# test/core, test/transfer and the tests of the reference executor. LeakSanitizer and
# ThreadSanitizer run with plain scripts, because a test runner leaks and races by itself. Needs
# gcc's sanitizer libraries. Takes about two minutes; builds into native/build-asan and
# native/build-tsan.
set -euo pipefail
if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 0
fi
cd "$(dirname "$0")/.."

build() { # <folder> <sanitizers>
  npx cmake-js build -d native -O "native/$1" --CDSAN="$2" --CDCMAKE_BUILD_TYPE=RelWithDebInfo >"native/$1.log" 2>&1 ||
    { cat "native/$1.log"; exit 1; }
}
library() { g++ -print-file-name="$1"; }

echo '== AddressSanitizer and UndefinedBehaviorSanitizer: test/core, test/executors/reference, test/transfer'
build build-asan address,undefined
export BLOCKSTEP_ADDON="$PWD/native/build-asan/Release/blockstep.node"
asan="allocator_may_return_null=1:quarantine_size_mb=16:exitcode=23"
LD_PRELOAD="$(library libasan.so) $(library libubsan.so)" ASAN_OPTIONS="$asan:detect_leaks=0" \
  npx vitest run --config test/vitest.config.ts test/core test/executors/reference test/transfer --exclude '**/gyp.test.ts'

echo '== LeakSanitizer: a process that makes, abandons and disposes cores'
LD_PRELOAD="$(library libasan.so)" ASAN_OPTIONS="$asan:detect_leaks=1" \
  node test/core/process/leak.cjs "$BLOCKSTEP_ADDON"

echo '== ThreadSanitizer: workers that are terminated at work'
# Node itself is not instrumented, so its own accesses would be reported although its locks order
# them.
build build-tsan thread
LD_PRELOAD="$(library libtsan.so)" TSAN_OPTIONS=ignore_noninstrumented_modules=1:exitcode=66 \
  node test/core/process/threads.cjs "$PWD/native/build-tsan/Release/blockstep.node"
