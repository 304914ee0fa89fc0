#!/usr/bin/env bash
# Checks the compiler's report on the kernels, for every architecture of a release: none may spill a
# register or keep anything in local memory. On a GPU, each use of local memory would be a trip to
# memory. Prints the registers of each kernel. The report is what a build with CUDAFLAGS=-Xptxas=-v
# has printed:
#   check_resources.sh            compiles the kernels for it; needs nvcc, and NVCC chooses it
#   check_resources.sh REPORT [ARCHITECTURE]...   reads the report of a build with BLOCKSTEP_CUDA_ALL=ON, or for some of them
set -euo pipefail

report=${1:+$(realpath "$1")}
cd "$(dirname "$0")"
architectures='75 80 86 89 90 100 120'
[ $# -lt 2 ] || architectures=${*:2}

if [ -z "$report" ]; then
  nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  report=$scratch/report
  flags=(-std=c++20 -O3 -Werror all-warnings -Xptxas=-v --threads 0 -Xcompiler=-Wall,-Wextra,-Wconversion,-Werror)
  for architecture in $architectures; do
    flags+=("--generate-code=arch=compute_$architecture,code=sm_$architecture")
  done
  for source in */*.cu; do
    "$nvcc" "${flags[@]}" -c "$source" -o "$scratch/kernels" >>"$report" 2>&1 || { cat "$report"; exit 1; }
  done
fi

python3 - "$report" $architectures <<'PY'
import pathlib
import re
import sys

text = open(sys.argv[1], encoding='utf-8').read()
wanted = ['sm_' + number for number in sys.argv[2:]]
pattern = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                     r'(\d+) bytes spill loads.*?Used (\d+) registers', re.S)
source = ''.join(path.read_text(encoding='utf-8') for path in pathlib.Path('.').glob('*/*.cu'))
names = re.findall(r'__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(', source)
kernels = {}
failed = False
for name, architecture, stack, stores, loads, registers in pattern.findall(text):
    kernel = next(each for each in names if f'{len(each)}{each}' in name)
    arguments = re.search(r'I((?:L[jb]\d+E)+)E', name)
    numbers = re.findall(r'[jb](\d+)', arguments.group(1)) if arguments else []
    label = kernel + (f"<{', '.join(numbers)}>" if numbers else '')
    kernels.setdefault(label, {})[architecture] = int(registers)
    if int(stack) or int(stores) or int(loads):
        failed = True
        print(f'{label} for {architecture}: {stack} bytes of stack, {stores} + {loads} bytes spilled')
if {label.split('<')[0] for label in kernels} != set(names) or any(sorted(found) != sorted(wanted) for found in kernels.values()):
    sys.exit(f'the report of the compiler was not understood: {kernels}')
for label, found in sorted(kernels.items()):
    print(f'{label:<22}', '  '.join(f'{a} {found[a]}' for a in wanted), 'registers')
print('spills found' if failed else f'{len(kernels)} kernels for {len(wanted)} architectures, nothing spilled')
sys.exit(failed)
PY
