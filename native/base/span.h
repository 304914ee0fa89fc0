// Span: a view of `size` elements that another object owns.
#pragma once

#include "../core/base/types.h"

namespace blockstep {

template <class T>
struct Span {
  T* data;
  u32 size;
};

}  // namespace blockstep
