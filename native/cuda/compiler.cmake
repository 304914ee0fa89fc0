# Finds a CUDA compiler, also where the toolkit is installed but not in PATH, and says what to compile for. To be included
# before enable_language(CUDA). Without a compiler CMAKE_CUDA_COMPILER stays empty.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # PTX for the GPUs that are not named: of the newest architecture for those to come, of 8.0 for those between.
  if(BLOCKSTEP_CUDA_ALL)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80 86-real 89-real 90-real 100-real 120)
  else()
    # A driver would translate PTX for a GPU that is not named at its first use, on the thread that asks, for some ten seconds.
    # So where there is a GPU the build is for it.
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
    list(TRANSFORM capabilities REPLACE "\\." "")
    list(TRANSFORM capabilities APPEND "-real")
    list(REMOVE_DUPLICATES capabilities)
    if(status EQUAL 0 AND capabilities)
      set(CMAKE_CUDA_ARCHITECTURES ${capabilities} 80-virtual)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90)
    endif()
  endif()
endif()
