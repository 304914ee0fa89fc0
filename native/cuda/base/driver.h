// The functions of the driver that the back end calls. libcuda is not linked, so the functions are
// looked up by name.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

namespace blockstep::cuda {

struct Driver {
  PFN_cuDevicePrimaryCtxRetain_v7000 retain;
  PFN_cuCtxGetCurrent_v4000 current;
  PFN_cuCtxPushCurrent_v4000 push;
  PFN_cuCtxPopCurrent_v4000 pop;
  PFN_cuCtxGetDevice_v2000 device;
  // The runtime's queries overwrite a pending error of other code with "not ready".
  PFN_cuStreamQuery_v2000 query_stream;
  PFN_cuEventQuery_v2000 query_event;
  // Null if this driver lacks any of them:
  PFN_cuDeviceGetAttribute_v2000 attribute;
  PFN_cuStreamWriteValue64_v11070 write_value;
};

/// Looks the functions up at the first call. Any thread may call it. @throws Error kCuda if the
/// driver lacks a required function
const Driver& driver();

}  // namespace blockstep::cuda
