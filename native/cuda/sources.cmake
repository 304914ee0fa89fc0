# What the CUDA back end is made of, for the builds by nvcc and over the emulated runtime.
set(BLOCKSTEP_KERNEL_SOURCES
  gather.cu
  kernels.cu)
set(BLOCKSTEP_CUDA_SOURCES
  block_memory.cc
  call.cc
  cuda_device.cc
  device_tables.cc
  probe.cc)
