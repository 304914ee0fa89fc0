#!/usr/bin/env bash
# Builds and runs the tests of native/core and native/reference. Ends with "N passed, M failed"; the exit code says the same.
#
#   run.sh             everything, in less than a minute on two cores
#   run.sh --long      the same with much longer model, team, fuzz and churn runs (some minutes)
#   run.sh --bench     the figures of native/README.md instead
#   run.sh --mutants   breaks the core on purpose, place by place, and expects the tests to notice (see mutate.py)
#
# CXX chooses the compiler. Binaries go to native/build-test and are reused while no source is newer.
set -u
cd "$(dirname "$0")"

CXX=${CXX:-g++}
BUILD=../build-test
JOBS=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
FLAGS="-std=c++20 -g -pthread -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Werror"
OPTIMISED="-O2"
CHECKED="-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
RACES="-O1 -fsanitize=thread"
MIRROR="../host/mirror.cc"
RING="../host/completion_ring.cc"
LANE="$RING ../host/copy_plan.cc ../host/host_lane.cc"
KERNELS="-Wno-unknown-pragmas -I gpu_shim -DGPU_SHIM_THREADS"
HOST="$(echo ../host/*.cc)"
# What an addon in plain C knows of the tables of a step: the header is compiled as C here, and as C++ everywhere else.
READER="$BUILD/tables_reader.o"
# The CUDA back end on the emulated GPU, with all of the host that it calls.
GPU="-DBLOCKSTEP_BLOCK_THREADS=64 -Wno-unknown-pragmas -I gpu_shim $(echo gpu_shim/*.cc) $(echo ../cuda/*.cc) -x c++ $(echo ../cuda/*.cu) -x none $HOST $(echo ../reference/*.cc)"

passed=0
failed=0
mode=${1:-}
case "$mode" in
  '' | --long | --bench | --mutants) ;;
  *) echo "unknown option $mode; known: --long --bench --mutants" >&2; exit 2 ;;
esac
if [ "$mode" = --mutants ]; then exec python3 mutate.py; fi

mkdir -p "$BUILD/cuda"
${CC:-gcc} -std=c99 -pedantic -Wall -Wextra -Werror -c cuda/tables_reader.c -o "$READER" || exit 1

# build SOURCE KIND FLAGS...: native/build-test/SOURCE.KIND
build() {
  local source=$1 kind=$2
  shift 2
  local binary=$BUILD/$source.$kind
  # Whatever is older than its sources was removed before.
  [ -x "$binary" ] && return 0
  # shellcheck disable=SC2086  # the flags are lists
  $CXX $FLAGS "$@" "$source.cc" -o "$binary.new" && mv "$binary.new" "$binary"
}
export -f build
export CXX BUILD FLAGS

# run SOURCE KIND ARGUMENTS...
run() {
  local binary=$BUILD/$1.$2
  shift 2
  local start output
  start=$(date +%s%N)
  if [ ! -x "$binary" ]; then
    failed=$((failed + 1))
    echo "FAIL ${binary##*/}: not built"
  elif output=$("$binary" "$@" 2>&1); then
    passed=$((passed + 1))
    printf 'ok   %-22s %5d ms  %s\n' "${binary##*/}" $((($(date +%s%N) - start) / 1000000)) "$output"
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n%s\n' "${binary##*/} $*" "$output"
  fi
}

# remove_stale SOURCE KIND: a binary of older sources must not be taken for a new one when its build fails.
remove_stale() {
  local binary=$BUILD/$1.$2
  local newer
  newer=$(find . ../core ../host ../cuda ../reference \( -name '*.h' -o -path "./$1.cc" -o -path '../host/*.cc' -o -path '../reference/*.cc' -o -name '*.cu*' -o \
    -path './gpu_shim/*' \) -newer "$binary" 2>/dev/null)
  if [ -n "$newer" ]; then rm -f "$binary"; fi
}

if [ "$mode" = --bench ]; then
  remove_stale bench_core optimised
  # shellcheck disable=SC2086
  build bench_core optimised $OPTIMISED && exec "$BUILD/bench_core.optimised"
  exit 1
fi

sources="hash_test index_test log_test state_test model_test decide_test reference_test fuzz"
{
  for source in team_test decide_test; do echo "$source races $RACES"; done
  for kind in races:"$RACES" checked:"$CHECKED"; do
    echo "mirror_test ${kind%%:*} ${kind#*:} $MIRROR"
    echo "host_test ${kind%%:*} ${kind#*:} $HOST"
    echo "decided_test ${kind%%:*} ${kind#*:}"
    echo "gatherer_test ${kind%%:*} ${kind#*:} $HOST"
    echo "ring_test ${kind%%:*} ${kind#*:} $RING"
    echo "lane_test ${kind%%:*} ${kind#*:} $LANE"
  done
  echo "kernel_test races $RACES $KERNELS"
  echo "decide_kernel_test races $RACES $KERNELS"
  echo "gather_test races $RACES $KERNELS $HOST"
  echo "comparison_test optimised $OPTIMISED"
  echo "reference_kernel_test races $RACES $KERNELS"
  for source in gpu_test cuda_lane_test device_reference_test; do
    echo "$source races $RACES -DGPU_SHIM_THREADS $GPU"
    echo "$source optimised $OPTIMISED $GPU"
  done
  echo "cuda/tables_test optimised $OPTIMISED $GPU -x c++ cuda/forward.cu -x none $READER"
  for source in $sources; do echo "$source checked $CHECKED"; done
  for source in $sources churn_test bench_core; do echo "$source optimised $OPTIMISED"; done
} > "$BUILD/list"
rm -f "$BUILD"/*.new
while read -r source kind _; do remove_stale "$source" "$kind"; done < "$BUILD/list"
xargs -P "$JOBS" -L 1 bash -c 'build "$@"' build < "$BUILD/list"

times=1
if [ "$mode" = --long ]; then times=60; fi
for kind in optimised checked; do
  run hash_test $kind
  run index_test $kind
  run state_test $kind
  run log_test $kind $((400 * times))
  run reference_test $kind $((2000 * times))
done
run model_test optimised $((6000 * times))
run model_test checked $((1000 * times))
run team_test races $((30 * times))
run decide_test optimised $((300 * times))
run decide_test checked $((300 * times))
run decide_test races $((60 * times)) 2 3 5
for kind in races checked; do
  run mirror_test $kind $((250 * times))
  run host_test $kind $((500 * times))
  run decided_test $kind $((60 * times))
  run gatherer_test $kind $((300 * times))
  run ring_test $kind $((200 * times))
  run lane_test $kind $((200 * times))
done
run kernel_test races $((times > 1 ? 300 : 20))
run decide_kernel_test races $((15 * times))
run gather_test races $((20 * times))
run comparison_test optimised $((300 * times))
run reference_kernel_test races
run device_reference_test races 3
run device_reference_test optimised $((60 * times))
run cuda_lane_test races 2
run cuda_lane_test optimised $((40 * times))
run gpu_test races 0
run gpu_test optimised $((200 * times))
run cuda/tables_test optimised --steps $((600 * times))
run fuzz optimised $((8000 * times))
run fuzz checked $((1500 * times))
run churn_test optimised $((times > 1 ? 10 : 1))

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
