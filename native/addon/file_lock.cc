#include "file_lock.h"

#include <system_error>

#ifdef _WIN32
#include <windows.h>

#include <io.h>
#else
#include <sys/file.h>

#include <cerrno>
#endif

namespace blockstep {
namespace {

constexpr char kHeld[] = "held";

#ifdef _WIN32

/// An offset far behind any content, because Windows refuses to read locked ranges.
constexpr DWORD kFarAway = 0x7fffffff;

std::string try_lock(int file) {
  const auto handle = reinterpret_cast<HANDLE>(_get_osfhandle(file));
  OVERLAPPED place{};
  place.OffsetHigh = kFarAway;
  if (LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place)) return {};
  const DWORD error = GetLastError();
  return error == ERROR_LOCK_VIOLATION || error == ERROR_IO_PENDING ? kHeld : std::system_category().message(static_cast<int>(error));
}

#else

std::string try_lock(int file) {
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return {};
  const int error = errno;
  return error == EWOULDBLOCK ? kHeld : std::system_category().message(error);
}

#endif

}  // namespace

Napi::Value lock_file(const Call& call) {
  const u32 file = call.integer(0, "fd", 0, 0x7fffffff);
  const std::string why = try_lock(static_cast<int>(file));
  return why.empty() ? call.env.Null() : Napi::Value(Napi::String::New(call.env, why));
}

}  // namespace blockstep
