// The library as seen from JavaScript: loaded once in a process, and known to each environment that
// loaded it.
#pragma once

#include <napi.h>

#include "../api/library.h"

namespace blockstep::llama {

/// load({ folder, fallback, ggmlBase, ggml, llama, commit, attention }): { version, commit,
/// maxSequences, devices, attention, attentionReason }.
Napi::Value load_library(const Napi::CallbackInfo& info);

/// tryAttention(trial): { wasOurs, distance, isSameAlone }. `Trial` documents the argument.
Napi::Value run_trial(const Napi::CallbackInfo& info);

/// The library that `load_library` loaded in this environment. @throws Napi::Error
const Library& library_of(Napi::Env env);

}  // namespace blockstep::llama
