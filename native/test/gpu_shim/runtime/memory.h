// The memory of the emulated GPU. Device memory is inaccessible while no work runs, so host code
// that dereferences a device address is stopped by the machine. Every allocation has an
// inaccessible page on either side.
#pragma once

#include <cstddef>

namespace gpu_shim {

enum class Kind { kUnknown, kPinned, kDevice };

/// nullptr: out of memory.
void* allocate(Kind kind, std::size_t bytes);
/// False: there is no such allocation.
bool release(Kind kind, void* base);
/// The kind of all these bytes.
Kind kind_of(const void* address, std::size_t bytes = 1);
std::size_t device_bytes_in_use();

/// Device memory is accessible while an object of this class lives.
class Working {
 public:
  Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
  ~Working();
};

}  // namespace gpu_shim
