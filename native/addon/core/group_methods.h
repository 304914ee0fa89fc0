// The methods of a core object with KV cache groups.
#pragma once

#include <vector>

#include "../base/call.h"

namespace blockstep {

std::vector<Napi::PropertyDescriptor> group_methods(Napi::Env env);

}  // namespace blockstep
