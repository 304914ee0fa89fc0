#pragma once

#include "cuda.h"

typedef CUresult (*PFN_cuStreamWriteValue64_v11070)(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
typedef PFN_cuStreamWriteValue64_v11070 PFN_cuStreamWriteValue64;
typedef CUresult (*PFN_cuDeviceGetAttribute_v2000)(int* value, CUdevice_attribute attribute, CUdevice device);
typedef PFN_cuDeviceGetAttribute_v2000 PFN_cuDeviceGetAttribute;
