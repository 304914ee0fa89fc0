# What the CUDA back end is made of, for the builds by nvcc and over the emulated runtime.
set(BLOCKSTEP_KERNEL_SOURCES
  copy.cu
  decide.cu
  gather.cu
  kernels.cu
  reference.cu)
set(BLOCKSTEP_CUDA_SOURCES
  block_memory.cc
  calibrate.cc
  call.cc
  copier.cc
  cuda_device.cc
  cuda_lane.cc
  cuda_reference.cc
  device_tables.cc
  probe.cc
  timeline.cc)
