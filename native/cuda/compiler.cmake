# Finds a CUDA compiler, also where the toolkit is installed but not in PATH, and says what to compile for. To be included
# before enable_language(CUDA). Without a compiler CMAKE_CUDA_COMPILER stays empty.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(BLOCKSTEP_CUDA_ALL)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90)
  endif()
endif()
