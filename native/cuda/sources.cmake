# What the CUDA back end is made of, for the builds by nvcc and over the emulated runtime.
set(BLOCKSTEP_KERNEL_SOURCES
  kernels/copy.cu
  kernels/decide.cu
  kernels/gather.cu
  kernels/kernels.cu
  reference/reference.cu)
set(BLOCKSTEP_CUDA_SOURCES
  base/call.cc
  copies/block_memory.cc
  copies/calibrate.cc
  copies/copier.cc
  device/cuda_device.cc
  device/device_tables.cc
  device/probe.cc
  lane/cuda_lane.cc
  lane/timeline.cc
  reference/cuda_reference.cc)
