// The types of functions of the driver that are fetched by name.
#pragma once

#include "cuda.h"

typedef CUresult (*PFN_cuStreamWriteValue64_v11070)(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
typedef CUresult (*PFN_cuDeviceGetAttribute_v2000)(int* value, CUdevice_attribute attribute, CUdevice device);
typedef CUresult (*PFN_cuDevicePrimaryCtxRetain_v7000)(CUcontext* context, CUdevice device);
typedef CUresult (*PFN_cuCtxGetCurrent_v4000)(CUcontext* context);
typedef CUresult (*PFN_cuCtxPushCurrent_v4000)(CUcontext context);
typedef CUresult (*PFN_cuCtxPopCurrent_v4000)(CUcontext* context);
typedef CUresult (*PFN_cuCtxGetDevice_v2000)(CUdevice* device);
typedef CUresult (*PFN_cuStreamQuery_v2000)(CUstream stream);
typedef CUresult (*PFN_cuEventQuery_v2000)(CUevent event);
