// Program: one step of the executor, as a list of calls of llama.cpp. Each call first moves cells
// between sequences, then computes a batch, then samples. src/executors/llama-cpp/step/program.ts
// writes it:
//
//     number of calls, then for each call
//       number of operations O, of tokens T, of samples S; number of the adapter, -1: none
//       O x [kind, sequence, destination sequence of a copy, first position, position behind the
//            last; -1: to the end]
//       T x token, T x position, T x sequence
//       S x [index of the first row in the batch, number of drafts, number of the sampler; -1: the
//            likeliest token, position of the token]
//
// The drafts of a sample after row r are in the rows behind r. A sampler of -2 - N samples nothing.
// It reports the log-probabilities of the tokens after the rows, and the N likeliest tokens. These
// tokens are in the next rows. For the last row, the token is in place of the position.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace blockstep::llama {

/// The last two are for copies alone: they save and load a block at `from`.
enum class Operation : int32_t { kRemove = 0, kCopy = 1, kSave = 2, kLoad = 3 };

struct Move {
  int32_t kind;
  int32_t sequence;
  int32_t target;
  int32_t from;
  int32_t to;
};

struct Sample {
  int32_t row;
  int32_t drafts;
  int32_t sampler;
  int32_t position;
};

/// A call of a program. It points into the program's memory.
struct ProgramCall {
  const Move* moves = nullptr;
  int32_t num_moves = 0;
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* sequences = nullptr;
  int32_t num_tokens = 0;
  const Sample* samples = nullptr;
  int32_t num_samples = 0;
  int32_t adapter = -1;
};

/// The limits of a program.
struct ProgramLimits {
  int32_t num_tokens;     // number of tokens of the vocabulary
  int32_t num_sequences;  // number of sequences of the executor
  int32_t num_adapters;   // number of adapters of the model
  int32_t batch;          // most tokens of a call
  int32_t outputs;        // most sampled rows of a call
};

/// Reads a program and checks all of it, so that a refused program has no effect.
/// @throws std::runtime_error
inline std::vector<ProgramCall> read_program(const int32_t* at, std::size_t size, const ProgramLimits& limits) {
  const int32_t* const end = at + size;
  const auto fail = [](const char* what) { throw std::runtime_error(std::string("a step is malformed: ") + what); };
  const auto take = [&](std::size_t count) {
    if (static_cast<std::size_t>(end - at) < count) fail("it is too short");
    const int32_t* taken = at;
    at += count;
    return taken;
  };
  const auto is_sequence = [&](int32_t sequence) { return sequence >= 0 && sequence < limits.num_sequences; };
  const int32_t num_calls = *take(1);
  if (num_calls < 0) fail("it has fewer than no calls");
  std::vector<ProgramCall> calls;
  for (int32_t i = 0; i < num_calls; i++) {
    const int32_t* counts = take(4);
    ProgramCall call;
    call.num_moves = counts[0];
    call.num_tokens = counts[1];
    call.num_samples = counts[2];
    call.adapter = counts[3];
    if (call.num_moves < 0 || call.num_samples < 0) fail("a count is below 0");
    if (call.adapter < -1 || call.adapter >= limits.num_adapters) fail("there is no such adapter");
    if (call.num_tokens < 0 || call.num_tokens > limits.batch) fail("a call has more tokens than a batch");
    static_assert(sizeof(Move) == 5 * sizeof(int32_t) && sizeof(Sample) == 4 * sizeof(int32_t));
    call.moves = reinterpret_cast<const Move*>(take(5 * static_cast<std::size_t>(call.num_moves)));
    const auto count = static_cast<std::size_t>(call.num_tokens);
    call.tokens = take(count);
    call.positions = take(count);
    call.sequences = take(count);
    call.samples = reinterpret_cast<const Sample*>(take(4 * static_cast<std::size_t>(call.num_samples)));
    for (int32_t m = 0; m < call.num_moves; m++) {
      const Move& move = call.moves[m];
      if (!is_sequence(move.sequence) || !is_sequence(move.target)) fail("there is no such sequence");
    }
    for (std::size_t t = 0; t < count; t++) {
      if (call.tokens[t] < 0 || call.tokens[t] >= limits.num_tokens) fail("a token is not of the vocabulary");
      if (call.positions[t] < 0) fail("a position is below 0");
      if (!is_sequence(call.sequences[t])) fail("there is no such sequence");
    }
    int64_t outputs = 0;
    for (int32_t s = 0; s < call.num_samples; s++) {
      const Sample& sample = call.samples[s];
      if (sample.row < 0 || sample.drafts < 0 || sample.row + sample.drafts >= call.num_tokens) fail("a sample has no row");
      if (sample.sampler < -1 && (sample.position < 0 || sample.position >= limits.num_tokens)) fail("a token is not of the vocabulary");
      outputs += 1 + sample.drafts;
    }
    if (outputs > limits.outputs) fail("a call samples from too many rows");
    calls.push_back(call);
  }
  return calls;
}

}  // namespace blockstep::llama
