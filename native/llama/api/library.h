// Library: llama.cpp as this process has it, loaded at run time. A process has one at most: the libraries of two variants have the same
// names, so that the second would be bound to parts of the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "functions.h"

namespace blockstep::llama {

namespace api {
#include "api.h"
}  // namespace api

/// Where the libraries lie: paths of files.
struct LibraryFiles {
  std::string folder;
  std::string fallback;  // a folder with backends that are tried where those of `folder` find no GPU; empty: none
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

  /// Loads the libraries, unless that was done, and checks that they are of the commit that api.h describes.
  /// @param commit what `ggml_commit` must say; empty: any
  /// @throws std::runtime_error in words; then nothing of llama.cpp was called that depends on api.h
  static const Library& load(const LibraryFiles& files, const std::string& commit);

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace blockstep::llama
