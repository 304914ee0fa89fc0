// The memory of the emulated GPU. Device memory cannot be touched while no work is being done: a host that takes a device
// address for one of its own is stopped by the machine. Every piece has a page on either side that nobody may touch.
#pragma once

#include <cstddef>

namespace gpu_shim {

enum class Kind { kUnknown, kPinned, kDevice };

/// nullptr: more than there is.
void* allocate(Kind kind, std::size_t bytes);
/// False: there is no such piece.
bool release(Kind kind, void* base);
/// Of what kind all these bytes are.
Kind kind_of(const void* address, std::size_t bytes = 1);
std::size_t device_bytes_in_use();

/// Device memory may be touched as long as one of these lives.
class Working {
 public:
  Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
  ~Working();
};

}  // namespace gpu_shim
