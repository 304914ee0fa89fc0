// Library: llama.cpp, loaded into this process at run time. A process loads at most one variant.
// The libraries of two variants have the same names, so the second would be bound to parts of the
// first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "functions.h"

namespace blockstep::llama {

namespace api {
#include "api.h"
}  // namespace api

/// Paths of the library files.
struct LibraryFiles {
  std::string folder;
  // A folder with backends to try if the backends of `folder` find no GPU; empty: none.
  std::string fallback;
  std::string ggml_base;
  std::string ggml;
  std::string llama;
};

class Library {
 public:
#define BLOCKSTEP_DECLARE(name) decltype(&api::name) name = nullptr;
  BLOCKSTEP_LLAMA_FUNCTIONS(BLOCKSTEP_DECLARE)
  BLOCKSTEP_GGML_FUNCTIONS(BLOCKSTEP_DECLARE)
  BLOCKSTEP_GGML_BASE_FUNCTIONS(BLOCKSTEP_DECLARE)
#undef BLOCKSTEP_DECLARE

  /// Loads the libraries, unless they are already loaded, and checks that their commit matches
  /// api.h.
  /// @param commit expected value of `ggml_commit`; empty: any
  /// @throws std::runtime_error with a message; then no function that depends on api.h was called
  static const Library& load(const LibraryFiles& files, const std::string& commit);

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace blockstep::llama
