#!/usr/bin/env bash
# Builds and runs the tests of native/. Ends with "N passed, M failed"; the exit code says the same.
#
#   run.sh             everything
#   run.sh --long      the same with much longer model, team, fuzz and churn runs (some minutes)
#   run.sh --bench     the figures of native/core/README.md instead
#   run.sh --mutants [PART]...   breaks the code on purpose, place by place, and expects the tests to notice; with parts of
#                      names, in these places alone (see mutate.py)
#
# CXX chooses the compiler. Built files go to native/build-test and are reused while no source is
# newer.
set -u
cd "$(dirname "$0")"

CXX=${CXX:-g++}
BUILD=../build-test
JOBS=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# CUDA sources are compiled over the emulated GPU.
FLAGS="-std=c++20 -g1 -pthread -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Werror -Wno-unknown-pragmas"
FLAGS+=" -I gpu_shim/include -DBLOCKSTEP_BLOCK_THREADS=64 -DBLOCKSTEP_HOST_IS_LINKED"
# The kinds of a test. Under the sanitizers each thread of a thread block is a thread.
declare -A KINDS=(
  [optimised]="-O2"
  [checked]="-O0 -fsanitize=address,undefined -fno-sanitize-recover=all -DGPU_SHIM_THREADS"
  [races]="-O1 -fsanitize=thread -DGPU_SHIM_THREADS"
)
# Archives that tests are linked with, as far as they use them: one for each kind. The one in plain
# C stands for another addon. Parts of CUDA take the address sanitizer minutes to compile, so only
# the long runs have them.
HOST_PARTS=$(find ../transfer ../host ../reference -name '*.cc' | sort | xargs)
GPU_PARTS="$(find ../cuda gpu_shim -name '*.cc' -o -name '*.cu' | sort | xargs) gpu/forward.cu gpu/tables_reader.c gpu/bench/kernels/matrix_product.cu"
declare -A PARTS=([optimised]="$HOST_PARTS $GPU_PARTS" [checked]=$HOST_PARTS [races]="$HOST_PARTS $GPU_PARTS")

mode=${1:-}
case "$mode" in
  --help | -h) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]##*/}"; exit 0 ;;
  '' | --long | --bench | --mutants) ;;
  *) echo "unknown option $mode; known: --long --bench --mutants" >&2; exit 2 ;;
esac
if [ "$mode" = --mutants ]; then exec python3 mutate.py "${@:2}"; fi
times=1
long=()
if [ "$mode" = --long ]; then
  times=60
  long=(checked)
  PARTS[checked]="$HOST_PARTS $GPU_PARTS"
fi

# units_of KIND: its parts, a dozen of a folder in one source. Most of a source's time goes to the
# headers of the C++ library.
units_of() {
  local folder=$BUILD/units/$1 unit
  mkdir -p "$folder/new"
  printf '%s\n' ${PARTS[$1]} | grep -v '\.c$' | awk -F/ -v to="$folder/new" -v here="$PWD" \
    '{ of = $1 == ".." ? $2 : $1; n = count[of]++; print "#include \"" here "/" $0 "\"" > (to "/" of int(n / 12) ".cc") }'
  for unit in "$folder"/new/*; do
    cmp -s "$unit" "$folder/${unit##*/}" || cp "$unit" "$folder"
    echo "$folder/${unit##*/}"
  done
  rm -r "$folder/new"
  printf '%s\n' ${PARTS[$1]} | grep '\.c$'
}

# object_of PART KIND: its object, named by the whole path, since two folders may have files of one name
object_of() {
  local name=${1#../}
  echo "$BUILD/$2/${name//\//_}.o"
}

# compile PART KIND FLAGS...
compile() {
  local part=$1 object
  object=$(object_of "$1" "$2")
  shift 2
  local command=("$CXX" "$@" -x c++)
  if [[ $part == *.c ]]; then command=("${CC:-gcc}" -std=c99 -pedantic -Wall -Wextra -Werror); fi
  "${command[@]}" -c "$part" -o "$object.new" && mv "$object.new" "$object"
}

# build SOURCE KIND FLAGS...: native/build-test/SOURCE.KIND
build() {
  local source=$1 kind=$2
  shift 2
  local binary=$BUILD/$source.$kind
  "$CXX" "$@" "$source.cc" "$BUILD/$kind/parts.a" -o "$binary.new" && mv "$binary.new" "$binary"
}
export -f object_of compile build
export CXX BUILD

# is_stale FILE SOURCE: it is not there, or older than what it is made of.
is_stale() { [ ! -e "$1" ] || [ "$2" -nt "$1" ] || [ "$newest" -nt "$1" ] || [ "${BASH_SOURCE[0]##*/}" -nt "$1" ]; }

# make TESTS: builds what is stale of lines of SOURCE KIND, and of what they are linked with.
make_tests() {
  local tests=$1 kinds kind part source
  kinds=$(cut -d' ' -f2 <<<"$tests" | sort -u)
  # The newest of what is included, also by units.
  newest=$(find .. -path '../build*' -prune -o \
    \( -name '*.h' -o -name '*.cuh' -o -name '*.cu' -o -path '*/gpu_shim/*' -o -name '*.cc' -not -path '../test/*' \) -printf '%T@ %p\n' |
    sort -n | tail -n 1 | cut -d' ' -f2-)
  mkdir -p $(cut -d' ' -f1 <<<"$tests" | xargs dirname | sort -u | sed "s|^|$BUILD/|")
  for kind in $kinds; do
    mkdir -p "$BUILD/$kind"
    for part in $(units_of "$kind"); do
      is_stale "$(object_of "$part" "$kind")" "$part" || continue
      rm -f "$(object_of "$part" "$kind")" "$BUILD/$kind/parts.a"
      echo "$part $kind $FLAGS ${KINDS[$kind]}"
    done
  done | xargs -r -P "$JOBS" -L 1 bash -c 'compile "$@"' compile
  for kind in $kinds; do
    [ -e "$BUILD/$kind/parts.a" ] || ar rcs "$BUILD/$kind/parts.a" "$BUILD/$kind"/*.o
  done
  while read -r source kind; do
    is_stale "$BUILD/$source.$kind" "$source.cc" || ! [ "$BUILD/$kind/parts.a" -ot "$BUILD/$source.$kind" ] || continue
    # A binary of older sources must not be taken for a new one when its build fails.
    rm -f "$BUILD/$source.$kind"
    echo "$source $kind $FLAGS ${KINDS[$kind]}"
  done <<<"$tests" | xargs -r -P "$JOBS" -L 1 bash -c 'build "$@"' build
}

# run SOURCE KIND ARGUMENTS...: the last line that it says, and all of it when it fails
run() {
  local binary=$BUILD/$1.$2
  shift 2
  local start output
  start=$(date +%s%N)
  if [ ! -x "$binary" ]; then
    echo "FAIL ${binary##*/}: not built"
  elif output=$("$binary" "$@" 2>&1); then
    printf 'ok   %-28s %5d ms  %s\n' "${binary##*/}" $((($(date +%s%N) - start) / 1000000)) "${output##*$'\n'}"
  else
    printf 'FAIL %s\n%s\n' "${binary##*/} $*" "$output"
  fi
}
export -f run

if [ "$mode" = --bench ]; then
  make_tests 'core/bench_core optimised'
  exec "$BUILD/core/bench_core.optimised"
fi

# Tests that a sanitizer runs too are run by it alone, except in the long runs.
faster=()
if [ "$times" -gt 1 ]; then faster=(optimised); fi

make_tests "$(
  for source in core/{hash,index,log,state,decide}_test host/array_pool_test reference/reference_test; do
    for kind in checked "${faster[@]}"; do echo "$source $kind"; done
  done
  for source in core/{model_test,fuzz}; do
    for kind in checked optimised; do echo "$source $kind"; done
  done
  for source in host/{mirror,host,decided,gatherer}_test transfer/{ring,lane}_test; do
    echo "$source checked"
    echo "$source races"
  done
  for source in cuda/{cuda_lane,device_reference,launch_thread}_test; do
    for kind in optimised races "${long[@]}"; do echo "$source $kind"; done
  done
  for source in core/{team,decide}_test cuda/{kernel,decide_kernel,gather,reference_kernel}_test; do
    echo "$source races"
  done
  echo cuda/gpu_test races
  for kind in races "${faster[@]}"; do echo cuda/pinned_slabs_test $kind; done
  echo cuda/neighbours/neighbours_test optimised
  for source in cuda/gpu_test host/comparison_test gpu/tables_test core/churn_test core/bench_core; do echo "$source optimised"; done
)"

runs() {
  local kind
  for kind in checked "${faster[@]}"; do
    echo core/hash_test $kind
    echo core/index_test $kind
    echo core/state_test $kind
    echo host/array_pool_test $kind $((5000 * times))
    echo core/log_test $kind $((400 * times))
    echo reference/reference_test $kind $((2000 * times))
  done
  echo core/model_test optimised $((6000 * times))
  echo core/model_test checked $((1000 * times))
  echo core/team_test races $((times > 1 ? 1800 : 15))
  for kind in checked "${faster[@]}"; do echo core/decide_test $kind $((300 * times)); done
  echo core/decide_test races $((times > 1 ? 3600 : 30)) 2 3 5
  for kind in races checked; do
    echo host/mirror_test $kind $((250 * times))
    echo host/host_test $kind $((500 * times))
    echo host/decided_test $kind $((40 * times))
    echo host/gatherer_test $kind $((300 * times))
    echo transfer/ring_test $kind $((200 * times))
    echo transfer/lane_test $kind $((200 * times))
  done
  echo cuda/kernel_test races $((times > 1 ? 300 : 7))
  echo cuda/decide_kernel_test races $((times > 1 ? 540 : 5))
  echo cuda/gather_test races $((times > 1 ? 720 : 7))
  echo host/comparison_test optimised $((300 * times))
  echo cuda/reference_kernel_test races
  echo cuda/device_reference_test races 3
  echo cuda/device_reference_test optimised $((60 * times))
  echo cuda/cuda_lane_test races 1 2
  echo cuda/launch_thread_test races 12
  echo cuda/launch_thread_test optimised $((200 * times))
  echo cuda/cuda_lane_test optimised $((40 * times))
  echo cuda/gpu_test races 0
  for kind in races "${faster[@]}"; do echo cuda/pinned_slabs_test $kind; done
  echo cuda/neighbours/neighbours_test optimised
  echo cuda/gpu_test optimised $((200 * times))
  for kind in "${long[@]}"; do
    echo cuda/device_reference_test $kind 30
    echo cuda/cuda_lane_test $kind 4 60
  done
  echo gpu/tables_test optimised --steps $((600 * times))
  echo core/fuzz optimised $((8000 * times))
  echo core/fuzz checked $((1500 * times))
  echo core/churn_test optimised $((times > 1 ? 10 : 1))
}
runs | xargs -r -P "$JOBS" -L 1 bash -c 'run "$@"' run | tee "$BUILD/report"
passed=$(grep -c '^ok   ' "$BUILD/report")
failed=$(grep -c '^FAIL ' "$BUILD/report")

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -eq "$(runs | wc -l)" ]
