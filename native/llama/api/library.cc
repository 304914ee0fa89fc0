#include "library.h"

#include <mutex>
#include <stdexcept>

#include "log.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace blockstep::llama {
namespace {

#ifdef _WIN32
void* open_file(const std::string& path) {
  const int size = MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, nullptr, 0);
  std::wstring wide(static_cast<std::size_t>(size), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, wide.data(), size);
  // The libraries that it depends on are in the same folder.
  HMODULE module = LoadLibraryExW(wide.c_str(), nullptr, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  if (module == nullptr)
    throw std::runtime_error(path + " does not load: error " + std::to_string(GetLastError()));
  return reinterpret_cast<void*>(module);
}

void* find(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}
#else
void* open_file(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* why = dlerror();
  throw std::runtime_error(path + " does not load: " + (why == nullptr ? "no reason given" : why));
}

void* find(void* library, const char* name) { return dlsym(library, name); }
#endif

template <typename Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(find(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("it has no function ") + name);
}

bool has_gpu(const Library& library) {
  for (std::size_t i = 0; i < library.ggml_backend_dev_count(); i++)
    if (library.ggml_backend_dev_type(library.ggml_backend_dev_get(i)) != api::GGML_BACKEND_DEVICE_TYPE_CPU) return true;
  return false;
}

}  // namespace

const Library& Library::load(const LibraryFiles& files, const std::string& commit) {
  static std::mutex mutex;
  static Library* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded != nullptr) {
    if (loaded->folder_ == files.folder) return *loaded;
    throw std::runtime_error("this process has loaded llama.cpp from " + loaded->folder_ +
                             " already, and a process can load one variant of it alone");
  }
  Library library;
  library.folder_ = files.folder;
#define BLOCKSTEP_LOOK_UP(name) look_up(handle, #name, library.name);
  void* handle = open_file(files.ggml_base);
  BLOCKSTEP_GGML_BASE_FUNCTIONS(BLOCKSTEP_LOOK_UP)
  const std::string found = library.ggml_commit();
  if (!commit.empty() && found != commit)
    throw std::runtime_error("it is commit " + found + " of llama.cpp, expected " + commit);
  handle = open_file(files.ggml);
  BLOCKSTEP_GGML_FUNCTIONS(BLOCKSTEP_LOOK_UP)
  handle = open_file(files.llama);
  BLOCKSTEP_LLAMA_FUNCTIONS(BLOCKSTEP_LOOK_UP)
#undef BLOCKSTEP_LOOK_UP
  library.llama_log_set(Log::take, nullptr);
  library.ggml_backend_load_all_from_path(files.folder.c_str());
  if (!files.fallback.empty() && !has_gpu(library)) library.ggml_backend_load_all_from_path(files.fallback.c_str());
  library.llama_backend_init();
  // Never freed, because threads of the library may run until the process ends.
  loaded = new Library(library);
  return *loaded;
}

}  // namespace blockstep::llama
