"""The suites that mutants are tried on: tests, how each is built, and what it is given."""

import os

NATIVE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
# The folders that a copy of the sources needs.
ROOMS = ('core', 'base', 'transfer', 'host', 'reference', 'cuda', 'include', 'test')


def sources(room, ending='.cc'):
    """Paths below native/ of the files of a room and of the rooms in it."""
    return sorted(os.path.relpath(os.path.join(folder, name), NATIVE)
                  for folder, _, names in os.walk(os.path.join(NATIVE, room)) for name in names if name.endswith(ending))


DRAFT = ['-O0']
PLAIN = ['-O1']
CHECKED = ['-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all']
RACES = ['-O1', '-g', '-fsanitize=thread']
SHIM = ['-Wno-unknown-pragmas', '-Itest/gpu_shim/include']
# Kernels on threads: each thread of a thread block is one.
THREADS = SHIM + ['-DGPU_SHIM_THREADS'] + sources('test/gpu_shim')
HOST = sources('transfer') + sources('host')
LANE = sources('transfer')
# The CUDA back end on the emulated GPU.
KERNELS = ['-x', 'c++'] + sources('cuda', '.cu') + ['-x', 'none']
GPU = (['-O1', '-DBLOCKSTEP_BLOCK_THREADS=64'] + SHIM + sources('test/gpu_shim') + sources('cuda') + HOST +
       sources('reference') + KERNELS)
READERS = ['-x', 'c++', 'test/gpu/forward.cu', 'test/gpu/tables_reader.c', '-x', 'none']

# name: tests in the order in which they are tried, each (test, options and further sources, arguments)
SUITES = {
    'core': [
        ('core/model_test', PLAIN, ['1500']),
        ('core/state_test', PLAIN, []),
        ('core/log_test', PLAIN, ['200']),
        ('core/index_test', PLAIN, []),
        ('core/team_test', RACES, ['40']),
    ],
    'log': [('core/log_test', DRAFT, ['50'])],
    'state': [('core/state_test', DRAFT, [])],
    'hash': [('core/hash_test', DRAFT + ['host/requests/hash_lanes.cc'], [])],
    'index': [('core/index_test', CHECKED, [])],
    'decide': [
        ('core/decide_test', PLAIN, ['200']),
        ('core/decide_test', RACES, ['40', '2', '3', '5']),
        ('core/decide_test', CHECKED, ['100']),
    ],
    'mirror': [
        ('host/mirror_test', RACES + ['host/mirror/mirror.cc'], ['120']),
        ('host/host_test', PLAIN + HOST, ['400']),
    ],
    'decided': [('host/decided_test', DRAFT, ['60'])],
    'decided-races': [('host/decided_test', RACES, ['60'])],
    'arrays': [('host/array_pool_test', CHECKED, ['5000'])],
    'gatherer': [('host/gatherer_test', PLAIN + HOST, ['120'])],
    'transfer': [
        ('transfer/ring_test', PLAIN + LANE, ['100']),
        ('transfer/lane_test', PLAIN + LANE, ['100']),
        ('transfer/lane_test', RACES + LANE, ['200']),
        ('transfer/ring_test', RACES + LANE, ['100']),
    ],
    'kernels': [('cuda/kernel_test', RACES + THREADS, ['6'])],
    'decide-kernels': [('cuda/decide_kernel_test', RACES + THREADS, ['6'])],
    'gather': [
        ('cuda/gather_test', PLAIN + THREADS + HOST, ['60']),
        ('cuda/gather_test', RACES + THREADS + HOST, ['7']),
    ],
    'tables': [('gpu/tables_test', GPU + READERS, ['--steps', '200'])],
    'cuda-lane': [('cuda/cuda_lane_test', GPU, ['3'])],
    'launch-thread': [('cuda/launch_thread_test', GPU, ['60'])],
    'neighbours': [('cuda/neighbours/neighbours_test', GPU + ['-x', 'c++', 'test/gpu/bench/kernels/matrix_product.cu', '-x', 'none'], [])],
    'pinned-slabs': [('cuda/pinned_slabs_test', ['-O1', '-g', '-fsanitize=thread', 'cuda/memory/pinned_slabs.cc'], [])],
    'reference-kernels': [('cuda/reference_kernel_test', PLAIN + THREADS, [])],
    'device-reference': [('cuda/device_reference_test', GPU, ['30'])],
    'device-reference-races': [('cuda/device_reference_test', RACES + ['-DGPU_SHIM_THREADS'] + GPU, ['3'])],
}
SUITES['host'] = SUITES['mirror'][::-1]

# Tests that take long enough to need more patience.
SLOW = ('host/', 'cuda/', 'gpu/')


def patience(test):
    """Seconds that a test may take before it counts as red."""
    return 120 if test.startswith(SLOW) else 25
