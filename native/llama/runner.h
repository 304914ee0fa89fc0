// Runner: one context of llama.cpp, which computes programs in its own thread, one at a time.
//
// Behind a program of decodes the runner may go on by itself: a chain. Each step of a chain decodes
// the tokens of the step before. The answers come in groups, so that the JavaScript thread is woken
// only every few milliseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "block_copier.h"
#include "context.h"
#include "next_step.h"
#include "program.h"
#include "sampler.h"
#include "weights.h"

namespace blockstep::llama {

struct RunnerConfig : ContextConfig {
  int cells = 0;         // of the KV cache
  int batch = 0;         // most tokens of a call
  int micro_batch = 0;   // most tokens computed at once
  int sequences = 0;     // number of sequences of programs, numbered from 0
  int outputs = 0;       // most sampled rows of a call
  int batch_threads = 1;
  int block_size = 0;  // tokens of the blocks that copies save and load; 0: none are copied
  BlockOrigin origin{};
};

/// A change of cells between programs. A save or a load of a block has the block's memory.
struct Copy {
  Move move;
  uint8_t* block = nullptr;
};

/// Copies under way. The JavaScript thread may wait for them.
class Copies {
 public:
  explicit Copies(std::vector<Copy> given) : list(std::move(given)) {}

  const std::vector<Copy> list;

  void finish(std::vector<int32_t> ends, std::string failure);
  /// Waits until the copies are over.
  void wait();
  /// The end of each save and load, in their order. Only after the copies are over.
  const std::vector<int32_t>& ends() const { return ends_; }
  /// Why a change between them could not be made, so that the content of the cache is unknown.
  const std::string& failure() const { return failure_; }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::vector<int32_t> ends_;
  std::string failure_;
};

/// The result of a program, or of several steps of its chain, one after the other.
struct Answer {
  int steps = 1;
  bool goes_on = false;  // another answer of the chain follows
  int calls_done = 0;   // number of completed calls; below 0: the content of the cache is unknown
  std::string failure;  // why the next call failed; empty: all calls were done
  bool was_stopped = false;
  // For each sample: the number of tokens, then the tokens; 0: no token could be sampled.
  std::vector<int32_t> tokens;
  // For each token of a sampler with log-probabilities: its log-probability, a count, and then
  // [token, log-probability] for each likeliest token.
  std::vector<float> logprobs;
};

class Runner {
 public:
  /// Makes the context, which may take long, and starts the thread.
  /// @throws std::runtime_error with llama.cpp's message, for example if memory runs out
  Runner(std::shared_ptr<const Weights> weights, const RunnerConfig& config);
  /// Ends like `stop`.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Computes a program in the runner's thread, and calls `done` there. The memory of the program
  /// must stay unchanged until then. While an answer `goes_on`, another one follows.
  /// @param chain most steps that may follow the program. None follows if a step takes long, if it
  /// fails, or behind the end of a text
  void compute(const int32_t* program, std::size_t size, int chain, std::function<void(Answer)> done);

  /// Ends the chain after its present step. From any thread.
  void end_chain() { chain_ended_ = true; }

  /// Makes changes of cells, saves and loads in the runner's thread, in their order, and calls
  /// `done` there. No program may be computed meanwhile.
  void copy(std::shared_ptr<Copies> copies, std::function<void()> done);

  /// Null: blocks are not copied.
  const BlockCopier* copier() const { return copier_.get(); }
  int sequences() const { return config_.sequences; }

  /// Aborts the current computation, as far as llama.cpp supports it, and ends the thread. No
  /// callback is called after it returns.
  void stop();

  /// Adds a sampler, from any thread. @returns its number
  int add_sampler(SamplerConfig config);
  void drop_sampler(int number);

  /// Number of cells of the cache, which llama.cpp rounds up.
  int cells() const { return cells_; }
  /// The smallest and the largest position of a sequence in the cache, for tests; -1 if it has
  /// none. Must not be called while a program is computed.
  std::pair<int, int> positions(int sequence) const;

 private:
  void work();
  using Clock = std::chrono::steady_clock;

  Answer run(const std::vector<ProgramCall>& calls);
  /// Computes a program and its chain.
  void run_chain(const std::vector<ProgramCall>& calls, int most, const std::function<void(Answer)>& done);
  bool goes_on(const Answer& answer, NextStep& next, std::size_t at);
  void move(const Move& move) const;
  void make(Copies& copies) const;
  /// Makes the context compute with an adapter. llama.cpp has one set of adapters for a whole batch,
  /// and reserves its memory for computing again if the set changes.
  void use_adapter(int number);
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
  /// llama.cpp treats a cell as free if a window has passed it and only one sequence has it, even
  /// in a cache of full size. A twin of each sequence, with the same cells, prevents this. Models
  /// with a sliding window have twins.
  const bool has_twins_;
  std::unique_ptr<Context> context_;
  api::llama_memory_t memory_ = nullptr;
  std::unique_ptr<BlockCopier> copier_;
  int cells_ = 0;
  /// The adapter of the context; -1: none.
  int adapter_ = -1;

  // Arrays of a batch, reused by the next batch:
  std::vector<int32_t> tokens_, positions_, sequence_counts_;
  std::vector<api::llama_seq_id> sequences_;
  std::vector<api::llama_seq_id*> sequence_lists_;
  std::vector<int8_t> wanted_;

  std::mutex samplers_mutex_;
  std::map<int, std::shared_ptr<Sampler>> samplers_;
  int next_sampler_ = 0;
  std::unique_ptr<Sampler> plain_;

  std::atomic<bool> chain_ended_ = false;
  /// Time of a decode at best. Every step raises it a little, so that it forgets.
  Clock::duration quickest_ = std::chrono::hours(1);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> job_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace blockstep::llama
