#pragma once

#include "cuda.h"

typedef CUresult (*PFN_cuStreamWriteValue64_v11070)(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
typedef CUresult (*PFN_cuDeviceGetAttribute_v2000)(int* value, CUdevice_attribute attribute, CUdevice device);
