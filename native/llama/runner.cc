#include "runner.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "api/log.h"

namespace blockstep::llama {
namespace {

/// A chain has only decodes that take no longer, since those behind an unexpected end of a text are
/// wasted. No token waits longer for its group.
constexpr auto kShort = std::chrono::milliseconds(8);

void append(Answer& group, const Answer& answer) {
  group.steps++;
  group.calls_done = answer.calls_done;
  group.failure = answer.failure;
  group.was_stopped = answer.was_stopped;
  group.tokens.insert(group.tokens.end(), answer.tokens.begin(), answer.tokens.end());
  group.logprobs.insert(group.logprobs.end(), answer.logprobs.begin(), answer.logprobs.end());
}

}  // namespace

void Copies::finish(std::vector<int32_t> ends, std::string failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ends_ = std::move(ends);
  failure_ = std::move(failure);
  is_over_ = true;
  over_.notify_all();
}

void Copies::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  over_.wait(lock, [this] { return is_over_; });
}

Runner::Runner(std::shared_ptr<const Weights> weights, const RunnerConfig& config)
    : weights_(std::move(weights)),
      library_(weights_->library),
      config_(config),
      has_twins_(!weights_->keeps_state() && library_.llama_model_n_swa(weights_->model()) > 0),
      plain_(std::make_unique<Sampler>(weights_, SamplerConfig{})) {
  auto params = library_.llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(config.cells);
  params.n_batch = static_cast<uint32_t>(config.batch);
  params.n_ubatch = static_cast<uint32_t>(config.micro_batch);
  params.n_seq_max = static_cast<uint32_t>(has_twins_ ? 2 * config.sequences : config.sequences);
  const bool copies_blocks = config.block_size > 0 && !has_twins_ && !weights_->keeps_state();
  if (copies_blocks) params.n_seq_max++;
  // llama.cpp needs room for at least one row of logits per sequence.
  params.n_outputs_max = std::max(params.n_seq_max, static_cast<uint32_t>(config.outputs));
  params.n_batch = std::max(params.n_batch, params.n_outputs_max);
  params.n_threads_batch = config.batch_threads;
  context_ = std::make_unique<Context>(*weights_, config, params, stopping_);
  if (config.threads > 1) context_->start_threads(config.threads);
  memory_ = library_.llama_get_memory(context_->get());
  cells_ = static_cast<int>(library_.llama_n_ctx(context_->get()));
  if (copies_blocks)
    copier_ = std::make_unique<BlockCopier>(library_, context_->get(), config.sequences, config.block_size, config.origin);
  thread_ = std::thread([this] { work(); });
}

Runner::~Runner() { stop(); }

void Runner::stop() {
  stopping_ = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Runner::compute(const int32_t* program, std::size_t size, int chain, std::function<void(Answer)> done) {
  const ProgramLimits limits{weights_->num_tokens(), config_.sequences, weights_->num_adapters(), config_.batch, config_.outputs};
  auto calls = read_program(program, size, limits);
  if (chain > 0 && !NextStep::may_follow(calls)) throw std::runtime_error("a step is malformed: no step can follow it");
  chain_ended_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  job_ = [this, calls = std::move(calls), chain, done = std::move(done)] {
    try {
      if (chain > 0) run_chain(calls, chain, done);
      else done(run(calls));
    } catch (const std::exception& error) {
      // Memory ran out between two calls. Somebody waits for an answer.
      Answer lost;
      lost.calls_done = -1;
      lost.failure = error.what();
      done(std::move(lost));
    }
  };
  wake_.notify_all();
}

void Runner::copy(std::shared_ptr<Copies> copies, std::function<void()> done) {
  const std::lock_guard<std::mutex> lock(mutex_);
  job_ = [this, copies = std::move(copies), done = std::move(done)] {
    make(*copies);
    done();
  };
  wake_.notify_all();
}

void Runner::make(Copies& copies) const {
  std::vector<int32_t> ends;
  std::string failure;
  try {
    for (const Copy& copy : copies.list) {
      const auto [kind, sequence, target, from, to] = copy.move;
      if (copy.block == nullptr) {
        move(copy.move);
        continue;
      }
      CopyEnd end = CopyEnd::kStopped;
      if (!stopping_) {
        try {
          end = kind == static_cast<int32_t>(Operation::kSave) ? copier_->save(sequence, from, copy.block)
                                                               : copier_->load(sequence, from, copy.block);
        } catch (const std::exception&) {
          end = CopyEnd::kLlama;
        }
      }
      ends.push_back(static_cast<int32_t>(end));
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  copies.finish(std::move(ends), std::move(failure));
}

void Runner::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || job_; });
    if (stopping_) return;
    const auto job = std::move(job_);
    job_ = nullptr;
    lock.unlock();
    job();
    lock.lock();
  }
}

void Runner::run_chain(const std::vector<ProgramCall>& calls, int most, const std::function<void(Answer)>& done) {
  NextStep next(calls.front());
  auto begin = Clock::now();
  Answer group = run(calls);
  auto first = Clock::now();
  quickest_ = std::min(quickest_ + quickest_ / 16, first - begin);
  std::size_t at = 0;
  for (int step = 0; step < most && goes_on(group, next, at); step++) {
    begin = Clock::now();
    if (begin - first + quickest_ > kShort) {
      group.goes_on = true;
      done(std::move(group));
      group = Answer{};
      group.steps = 0;
      first = begin;
    }
    at = group.tokens.size();
    append(group, run(next.calls()));
    const auto end = Clock::now();
    if (group.steps == 1) first = end;
    quickest_ = std::min(quickest_ + quickest_ / 16, end - begin);
  }
  done(std::move(group));
}

/// Whether a step may follow the last one, whose tokens begin at `at`. If so, `next` becomes it.
bool Runner::goes_on(const Answer& answer, NextStep& next, std::size_t at) {
  if (chain_ended_ || stopping_ || !answer.failure.empty() || quickest_ > kShort) return false;
  return next.advance(answer.tokens, at, [this](int32_t token) {
    return library_.llama_vocab_is_eog(weights_->vocab(), token);
  });
}

Answer Runner::run(const std::vector<ProgramCall>& calls) {
  Answer answer;
  for (const ProgramCall& call : calls) {
    const Log log;
    try {
      answer.calls_done = -answer.calls_done - 1;
      for (int32_t m = 0; m < call.num_moves; m++) move(call.moves[m]);
      answer.calls_done = -answer.calls_done - 1;
      if (call.num_tokens > 0) decode(call);
      for (int32_t s = 0; s < call.num_samples; s++) {
        if (call.samples[s].sampler < -1) score(call.samples[s], call, answer);
        else sample(call.samples[s], call, answer);
      }
      answer.calls_done++;
    } catch (const std::exception& error) {
      answer.failure = std::string(error.what()) + ": " + log.errors("llama.cpp gives no reason");
      break;
    } catch (...) {
      answer.failure = "llama.cpp threw something unknown";
      break;
    }
  }
  answer.was_stopped = stopping_;
  return answer;
}

void Runner::move(const Move& move) const {
  for (int twin = 0; twin <= (has_twins_ ? config_.sequences : 0); twin += config_.sequences) {
    if (move.kind == static_cast<int32_t>(Operation::kCopy))
      library_.llama_memory_seq_cp(memory_, move.sequence + twin, move.target + twin, move.from, move.to);
    else if (!library_.llama_memory_seq_rm(memory_, move.sequence + twin, move.from, move.to))
      throw std::runtime_error("a range could not be removed from a sequence");
  }
}

void Runner::use_adapter(int number) {
  if (number == adapter_) return;
  api::llama_adapter_lora* adapter = number < 0 ? nullptr : weights_->adapter(number);
  float scale = 1;
  if (library_.llama_set_adapters_lora(context_->get(), &adapter, number < 0 ? 0 : 1, &scale) != 0)
    throw std::runtime_error("the adapter could not be set");
  adapter_ = number;
}

void Runner::decode(const ProgramCall& call) {
  use_adapter(call.adapter);
  const auto count = static_cast<std::size_t>(call.num_tokens);
  const std::size_t width = has_twins_ ? 2 : 1;
  tokens_.assign(call.tokens, call.tokens + count);
  positions_.assign(call.positions, call.positions + count);
  sequence_counts_.assign(count, static_cast<int32_t>(width));
  sequences_.resize(count * width);
  sequence_lists_.resize(count + 1);
  wanted_.assign(count, 0);
  for (std::size_t i = 0; i < count; i++) {
    sequences_[i * width] = call.sequences[i];
    if (has_twins_) sequences_[i * width + 1] = call.sequences[i] + config_.sequences;
    sequence_lists_[i] = &sequences_[i * width];
  }
  sequence_lists_[count] = nullptr;
  for (int32_t s = 0; s < call.num_samples; s++)
    for (int32_t d = 0; d <= call.samples[s].drafts; d++) wanted_[static_cast<std::size_t>(call.samples[s].row + d)] = 1;
  const api::llama_batch batch{call.num_tokens,         tokens_.data(),         nullptr,       positions_.data(),
                               sequence_counts_.data(), sequence_lists_.data(), wanted_.data()};
  const int status = library_.llama_decode(context_->get(), batch);
  if (status != 0) throw std::runtime_error(decode_failure(status));
  library_.llama_synchronize(context_->get());
}

void Runner::sample(const Sample& sample, const ProgramCall& call, Answer& answer) {
  const auto own = sampler(sample.sampler);
  Sampler& picks = own == nullptr ? *plain_ : *own;
  const std::size_t count_at = answer.tokens.size();
  answer.tokens.push_back(0);
  for (int32_t d = 0; d <= sample.drafts; d++) {
    const float* logits = logits_of(sample.row + d);
    const Sampled sampled = try_sample(picks, logits, sample.position + d);
    if (sampled.token < 0) return;
    answer.tokens.push_back(sampled.token);
    answer.tokens[count_at]++;
    put(sampled, answer, picks.num_logprobs() >= 0);
    if (d < sample.drafts && call.tokens[sample.row + d + 1] != sampled.token) return;
  }
}

const float* Runner::logits_of(int row) const {
  const float* logits = library_.llama_get_logits_ith(context_->get(), row);
  if (logits == nullptr) throw std::runtime_error("a row has no logits");
  return logits;
}

void Runner::score(const Sample& sample, const ProgramCall& call, Answer& answer) const {
  answer.tokens.push_back(sample.drafts + 1);
  for (int32_t d = 0; d <= sample.drafts; d++) {
    Sampled given;
    given.token = d < sample.drafts ? call.tokens[sample.row + d + 1] : sample.position;
    describe(logits_of(sample.row + d), static_cast<std::size_t>(weights_->num_tokens()), -2 - sample.sampler, given);
    answer.tokens.push_back(given.token);
    put(given, answer, true);
  }
}

Sampled Runner::try_sample(Sampler& picks, const float* logits, int position) {
  try {
    return picks.sample(logits, position);
  } catch (const std::exception&) {
    // llama.cpp's grammar throws if no rule is left. This fails only its own request.
    return {};
  }
}

void Runner::put(const Sampled& sampled, Answer& answer, bool has_logprobs) const {
  if (!has_logprobs) return;
  answer.logprobs.push_back(sampled.logprob);
  answer.logprobs.push_back(static_cast<float>(sampled.likeliest.size()));
  for (const auto& [token, logprob] : sampled.likeliest) {
    answer.logprobs.push_back(static_cast<float>(token));
    answer.logprobs.push_back(logprob);
  }
}

int Runner::add_sampler(SamplerConfig config) {
  auto added = std::make_shared<Sampler>(weights_, std::move(config));
  const std::lock_guard<std::mutex> lock(samplers_mutex_);
  samplers_.emplace(next_sampler_, std::move(added));
  return next_sampler_++;
}

void Runner::drop_sampler(int number) {
  const std::lock_guard<std::mutex> lock(samplers_mutex_);
  samplers_.erase(number);
}

std::shared_ptr<Sampler> Runner::sampler(int number) {
  if (number < 0) return nullptr;
  const std::lock_guard<std::mutex> lock(samplers_mutex_);
  const auto found = samplers_.find(number);
  if (found == samplers_.end()) throw std::runtime_error("there is no sampler " + std::to_string(number));
  return found->second;
}

std::pair<int, int> Runner::positions(int sequence) const {
  return {library_.llama_memory_seq_pos_min(memory_, sequence), library_.llama_memory_seq_pos_max(memory_, sequence)};
}

}  // namespace blockstep::llama
