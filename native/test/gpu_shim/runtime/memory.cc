#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "faults.h"

namespace gpu_shim {
namespace {

struct Piece {
  Kind kind;
  std::size_t bytes;   // as requested
  std::uint8_t* map;   // including guard pages
  std::size_t pages;   // bytes between the guard pages
};

struct Pieces {
  std::mutex mutex;
  std::map<std::uintptr_t, Piece> by_base;
  std::size_t device_bytes = 0;
  unsigned working = 0;
};
Pieces& pieces() {
  static Pieces* const all = new Pieces;
  return *all;
}

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void protect(const Piece& piece, bool open) {
  mprotect(piece.map + page(), piece.pages, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace

void* allocate(Kind kind, std::size_t bytes) {
  // The range ends as close to the guard page as CUDA's guaranteed alignment allows.
  constexpr std::size_t kAlignment = 256;
  const Faults now = faults();
  Pieces& all = pieces();
  const std::lock_guard lock(all.mutex);
  if (kind == Kind::kDevice && (bytes > now.memory || all.device_bytes + bytes > now.memory)) return nullptr;
  const std::size_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t size = (aligned + page() - 1) / page() * page();
  void* map = mmap(nullptr, size + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  const Piece piece{kind, bytes, static_cast<std::uint8_t*>(map), size};
  protect(piece, kind != Kind::kDevice || all.working != 0 || now.unguarded);
  std::uint8_t* base = piece.map + page() + (size - aligned);
  all.by_base.emplace(reinterpret_cast<std::uintptr_t>(base), piece);
  if (kind == Kind::kDevice) all.device_bytes += bytes;
  return base;
}

bool release(Kind kind, void* base) {
  Pieces& all = pieces();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_base.find(reinterpret_cast<std::uintptr_t>(base));
  if (found == all.by_base.end() || found->second.kind != kind) return false;
  if (kind == Kind::kDevice) all.device_bytes -= found->second.bytes;
  munmap(found->second.map, found->second.pages + 2 * page());
  all.by_base.erase(found);
  return true;
}

Kind kind_of(const void* address, std::size_t bytes) {
  Pieces& all = pieces();
  const std::lock_guard lock(all.mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto found = all.by_base.upper_bound(at);
  if (found == all.by_base.begin()) return Kind::kUnknown;
  --found;
  return at + bytes <= found->first + found->second.bytes ? found->second.kind : Kind::kUnknown;
}

std::size_t device_bytes_in_use() {
  Pieces& all = pieces();
  const std::lock_guard lock(all.mutex);
  return all.device_bytes;
}

Working::Working() {
  Pieces& all = pieces();
  const std::lock_guard lock(all.mutex);
  if (all.working++ != 0) return;
  for (const auto& [base, piece] : all.by_base) {
    if (piece.kind == Kind::kDevice) protect(piece, true);
  }
}

Working::~Working() {
  const bool open = faults().unguarded;
  Pieces& all = pieces();
  const std::lock_guard lock(all.mutex);
  if (--all.working != 0 || open) return;
  for (const auto& [base, piece] : all.by_base) {
    if (piece.kind == Kind::kDevice) protect(piece, false);
  }
}

}  // namespace gpu_shim
