// Runner: one context of llama.cpp, which computes programs in a thread of its own, one at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "context.h"
#include "program.h"
#include "sampler.h"
#include "weights.h"

namespace blockstep::llama {

struct RunnerConfig : ContextConfig {
  int cells = 0;         // of the KV cache
  int batch = 0;         // most tokens of a call
  int micro_batch = 0;   // most tokens that are computed at once
  int sequences = 0;     // that programs may name: numbers from 0
  int outputs = 0;       // most rows of a call that are sampled from
  int batch_threads = 1;
};

/// What a program brought.
struct Answer {
  int calls_done = 0;   // of its calls, the first ones. Below 0: what is in the cache is not known any more
  std::string failure;  // why the next call failed; empty: all were done
  bool was_stopped = false;
  std::vector<int32_t> tokens;  // for each sample: how many tokens, and these. 0: none could be picked
  std::vector<float> logprobs;  // for each token of a sampler with log-probabilities: its own, how many, and [token, its own] for each
};

class Runner {
 public:
  /// Makes the context, which may take long, and starts the thread.
  /// @throws std::runtime_error with what llama.cpp said, for instance for want of memory
  Runner(std::shared_ptr<const Weights> weights, const RunnerConfig& config);
  /// Ends as `stop`.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Computes a program in the runner's thread, and calls `done` there. The memory of the program stays as it is until then.
  void compute(const int32_t* program, std::size_t size, std::function<void(Answer)> done);

  /// Breaks off what is being computed, as far as llama.cpp can, and ends the thread. Nothing is called any more when it returns.
  void stop();

  /// Adds a sampler, from any thread. @returns its number
  int add_sampler(SamplerConfig config);
  void drop_sampler(int number);

  /// Cells of the cache, which llama.cpp rounds up.
  int cells() const { return cells_; }
  /// The least and the most position of a sequence that is in the cache, for tests; -1 for none. Not while a program is computed.
  std::pair<int, int> positions(int sequence) const;

 private:
  void work();
  Answer run(const std::vector<ProgramCall>& calls);
  void move(const Move& move) const;
  void decode(const ProgramCall& call);
  void sample(const Sample& sample, const ProgramCall& call, Answer& answer);
  void score(const Sample& sample, const ProgramCall& call, Answer& answer) const;
  const float* logits_of(int row) const;
  static Sampled try_sample(Sampler& picks, const float* logits, int position);
  void put(const Sampled& sampled, Answer& answer, bool has_logprobs) const;
  std::shared_ptr<Sampler> sampler(int number);

  const std::shared_ptr<const Weights> weights_;
  const Library& library_;
  const RunnerConfig config_;
  /// llama.cpp takes a cell for free if a window has passed it by and one sequence alone has it, even in a cache of full size. A twin of
  /// each sequence, which has the same cells, keeps it from that. Models with a sliding window have twins.
  const bool has_twins_;
  std::unique_ptr<Context> context_;
  api::llama_memory_t memory_ = nullptr;
  int cells_ = 0;

  // Of a batch; kept for the next one.
  std::vector<int32_t> tokens_, positions_, sequence_counts_;
  std::vector<api::llama_seq_id> sequences_;
  std::vector<api::llama_seq_id*> sequence_lists_;
  std::vector<int8_t> wanted_;

  std::mutex samplers_mutex_;
  std::map<int, std::shared_ptr<Sampler>> samplers_;
  int next_sampler_ = 0;
  std::unique_ptr<Sampler> plain_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> job_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace blockstep::llama
