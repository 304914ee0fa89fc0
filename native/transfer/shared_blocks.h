// SharedBlocks: the bytes of an arena that other processes of this machine can map. ArenaRegistry:
// the arenas that other threads of this process can find.
//
// Both use the id of an arena: 32 random hexadecimal digits. Ids prevent confusion of arenas when a
// process id or a file descriptor is reused.
#pragma once

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "block_arena.h"
#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/memfd.h>
#endif

namespace blockstep {

inline constexpr u32 kArenaIdDigits = 32;

/// Host memory in an anonymous file. The file ends with the last process that has it mapped or
/// open, however that process ends. All of its memory is allocated at once. The file can neither
/// grow nor shrink, so no peer can cause a bus error.
class SharedBlocks final : public BlockMemory {
 public:
  /// New, zeroed memory. @throws Error kNoMemory, kLimit if the system has no such files
  static std::unique_ptr<SharedBlocks> create(const std::string& id, u64 bytes);
  /// The memory that process `pid` made under this id and has open as `file`. @throws Error kLimit
  /// if it is unavailable: the process has ended, belongs to another user or container, or has
  /// another file open there
  static std::unique_ptr<SharedBlocks> open(const std::string& id, u32 pid, u32 file, u64 bytes);

  ~SharedBlocks() override;

  /// The file descriptor; valid in this process.
  int file() const { return file_; }

 private:
  SharedBlocks(int file, void* base, u64 bytes) : BlockMemory(Place::kHost, 0, bytes), file_(file) {
    bind(base, nullptr);
  }

#if defined(__linux__)
  static constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  static std::string name_of(const std::string& id) { return "blockstep-" + id; }
  static std::unique_ptr<SharedBlocks> map(int file, u64 bytes);
#endif

  int file_;
};

#if defined(__linux__)

/// Takes ownership of the file, even if it fails.
inline std::unique_ptr<SharedBlocks> SharedBlocks::map(int file, u64 bytes) {
  void* base = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (base == MAP_FAILED) {
    close(file);
    throw Error{kNoMemory, "could not map " + std::to_string(bytes) + " bytes of shared memory"};
  }
  return std::unique_ptr<SharedBlocks>(new SharedBlocks(file, base, bytes));
}

inline std::unique_ptr<SharedBlocks> SharedBlocks::create(const std::string& id, u64 bytes) {
  // The system call is made by number, because the function came only with glibc 2.27.
  const auto file =
      static_cast<int>(syscall(SYS_memfd_create, name_of(id).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file < 0) throw Error{kLimit, "this system has no anonymous files to share memory by"};
  // Allocated now, because a missing page later causes a signal instead of an error.
  if (fallocate(file, 0, 0, static_cast<off_t>(bytes)) != 0 || fcntl(file, F_ADD_SEALS, kSeals) != 0) {
    close(file);
    throw Error{kNoMemory, "could not allocate " + std::to_string(bytes) + " bytes of shared memory"};
  }
  return map(file, bytes);
}

inline std::unique_ptr<SharedBlocks> SharedBlocks::open(const std::string& id, u32 pid, u32 file, u64 bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  const auto refuse = [&](const char* why) -> Error {
    return {kLimit, "process " + std::to_string(pid) + " shares no arena " + id + ": " + why};
  };
  // Opened without blocking, because the path may by now name a pipe.
  const int own = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (own < 0) throw refuse("it has ended, or cannot be seen from here");
  char target[256];
  const std::string self = "/proc/self/fd/" + std::to_string(own);
  const ssize_t length = readlink(self.c_str(), target, sizeof target);
  const std::string expected = "/memfd:" + name_of(id) + " (deleted)";
  struct stat found = {};
  const char* wrong = nullptr;
  if (length < 0 || std::string(target, static_cast<std::size_t>(length)) != expected) wrong = "it has another file there";
  else if (fcntl(own, F_GET_SEALS) != kSeals) wrong = "the file could shrink";
  else if (fstat(own, &found) != 0 || static_cast<u64>(found.st_size) != bytes) wrong = "the file has another size";
  if (wrong == nullptr) return map(own, bytes);
  close(own);
  throw refuse(wrong);
}

inline SharedBlocks::~SharedBlocks() {
  munmap(base(), static_cast<std::size_t>(bytes()));
  close(file_);
}

#else

inline std::unique_ptr<SharedBlocks> SharedBlocks::create(const std::string&, u64) {
  throw Error{kLimit, "memory is shared between processes on Linux only"};
}
inline std::unique_ptr<SharedBlocks> SharedBlocks::open(const std::string& id, u32, u32, u64) { return create(id, 0); }
inline SharedBlocks::~SharedBlocks() = default;

#endif

/// The arenas of this process by id, for its other threads. The registry keeps no arena alive.
class ArenaRegistry {
 public:
  static ArenaRegistry& of_process() {
    static ArenaRegistry* const registry = new ArenaRegistry;  // never freed: threads may outlive main()
    return *registry;
  }

  void add(const std::string& id, const std::shared_ptr<BlockArena>& arena) {
    const std::lock_guard lock(mutex_);
    std::erase_if(arenas_, [](const auto& entry) { return entry.second.expired(); });
    arenas_[id] = arena;
  }

  /// Returns null if the arena no longer exists.
  std::shared_ptr<BlockArena> find(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = arenas_.find(id);
    return found == arenas_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<BlockArena>> arenas_;
};

}  // namespace blockstep
