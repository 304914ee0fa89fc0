// The methods of a core object for the tables of a step on a GPU.
#pragma once

#include <vector>

#include "../base/call.h"

namespace blockstep {

std::vector<Napi::PropertyDescriptor> device_table_methods(Napi::Env env);

}  // namespace blockstep
