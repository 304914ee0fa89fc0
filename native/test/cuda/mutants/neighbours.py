"""What is broken on purpose in how the back end lives beside others on a GPU (see ../../mutate.py)."""

# (suite, file, [(what is broken, text, its replacement)])
MUTANTS = [
    ('neighbours', 'cuda/base/gpu.cc', [
        ('the context of somebody else is good enough', 'current == context) return false;', 'current) return false;'),
        ('a thread keeps our context', '  if (pushed_) pop();\n}', '}'),
        ('captures are not spared', 'const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&before_);',
         'const cudaError_t error = cudaSuccess;'),
        ('a thread keeps our capture mode', '  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&before_));\n  if (pushed_) pop();\n}',
         '  if (pushed_) pop();\n}'),
        ('a GPU without pools gets one', 'if (!has_pools) return nullptr;', ''),
    ]),
    ('neighbours', 'cuda/base/stream.cc', [
        ('a capture is an error of the work', 'number >= kFirstOfCapture && number <= kLastOfCapture', 'false'),
        ('captures are not refused', '  if (!is_capturing(stream)) return;\n', '  return;\n'),
        ('waits without end', 'if (std::chrono::steady_clock::now() >= deadline) return false;',
         'if (std::chrono::steady_clock::now() >= deadline + std::chrono::hours(1)) return false;'),
    ]),
    ('neighbours', 'cuda/device/probe.cc', [
        ('the driver that is needed is not named', 'case 13: return "R580";', 'case 13: return "";'),
        ('the driver that is there is not named', 'the driver is for CUDA " + version(driver) +', 'the driver is for CUDA " +'),
        ('the self-test at every open', '    known.passed = true;\n', ''),
        ('a lost GPU counts as usable', 'if (status != cudaErrorNotReady) require(status, "work on the GPU");',
         'if (status == cudaErrorInvalidValue) require(status, "work on the GPU");'),
        ('a test that has not begun is waited for', 'verdict.began ? kPatience : std::chrono::milliseconds(0)', 'std::chrono::hours(1)'),
        ('the memory of a test that has not begun is given back', '    static_cast<void>(test.release());\n', ''),
        ('the self-test under a sanitizer', 'if (trusted) return', 'if (false) return'),
        ('nobody hears of what is abandoned', 'if (const u64 bytes = abandoned_bytes()) {', 'if (const u64 bytes = 0) {'),
    ]),
    ('neighbours', 'cuda/base/bounded.cc', [
        ('a call of CUDA without end', 'if (returned.wait_for(patience) != std::future_status::ready) return false;', ''),
        ('a bounded call in no context', '      const OnDevice on(device);\n', ''),
        ('a bounded call that failed', '  returned.get();\n', ''),
    ]),
    ('neighbours', 'cuda/base/gpu.cc', [
        ('the runtime is asked for the current GPU', 'require(static_cast<cudaError_t>(driver().device(&device)), "cuCtxGetDevice");',
         'require(cudaGetDevice(&device), "cudaGetDevice");'),
    ]),
    ('neighbours', 'cuda/device/device_tables.cc', [
        ('a gather begins early behind kernels of others', '!(is_own_ || behind_log_)', 'false'),
        ('no gather begins early', '!(is_own_ || behind_log_)', 'true'),
        ('a gather that followed a log once', '  behind_log_ = false;\n  last_number_ = head.number;\n}\n\nvoid CudaTables::gather_slot',
         '  last_number_ = head.number;\n}\n\nvoid CudaTables::gather_slot'),
        ('the padding is not waited for', ' ||\n         query(filled_.get()) == cudaErrorNotReady', ''),
        ('padding in a graph', '  if (!is_own_) refuse_capture(stream_, "the stream of a core");\n  try {', '  try {'),
        ('half a gather is nothing', '  last_number_ = head.number;  // if', '  // if'),
    ]),
    ('neighbours', 'cuda/memory/memory.cc', [
        ('managed memory is good enough', 'if (attributes.type != cudaMemoryTypeHost) {', 'if (false) {'),
        ('memory is freed in the order of all work',
         'if (pooled_) static_cast<void>(cudaFreeAsync(base_, on.gpu().service));', 'if (pooled_) static_cast<void>(cudaFree(base_));'),
        ('memory without a pool is never freed', 'else if (abandoned_bytes() == 0) static_cast<void>(cudaFree(base_));', ''),
    ]),
    ('launch-thread', 'cuda/device/launch_thread.cc', [
        ('the owner does not wait for launches', 'return ring_->launched.load(std::memory_order_acquire) == given; })) give_up', 'return true; })) give_up'),
        ('behind a launch that failed others are made', '  if (!failed && !stop) {', '  if (!stop) {'),
        ('a launch that failed is not told', '  if (ring_->failed.load(std::memory_order_acquire)) throw', '  if (false) throw'),
        ('a thread that sleeps is not woken', '  if (ring_->sleeps) wake();\n', ''),
        ('patience without end', 'Clock::now() < deadline;', 'true;'),
    ]),
    ('launch-thread', 'cuda/device/cuda_device.cc', [
        ('a digest overtakes logs', '  drain();\n  const OnDevice on(device_);\n  // Captured', '  const OnDevice on(device_);\n  // Captured'),
        ('the caller launches', '  if (launches_) {\n    write_letter', '  if (false) {\n    write_letter'),
    ]),
    ('neighbours', 'cuda/device/cuda_device.cc', [
        ('a captured stream gets logs', '  if (!is_own()) refuse_capture(stream_, "the stream of a core");\n', ''),
        ('the own stream is ordered with itself', '  if (other == stream_) return;\n', ''),
        ('the begin of a state from memory that is staged', 'require(cudaMemcpyAsync(home_, slots_, sizeof home', 'require(cudaMemcpyAsync(home_, &home, sizeof home'),
        ('a word that is on its way', 'return done(completion, number) && has_digest(completion, number);', 'return done(completion, number);'),
        ('half a digest is nothing', '  last_digest_ = number;  // if', '  // if'),
        ('an initialisation without end', 'if (wait_for(stream, "the initialisation")) return;',
         'if (wait_for(stream, "the initialisation", std::chrono::hours(1))) return;'),
    ]),
    ('neighbours', 'cuda/lane/timeline.cc', [
        ('stores are trusted', 'if (write_ && store_comes(stream)) return;', 'if (write_ && (store_comes(stream) || true)) return;'),
        ('a stream that begins late stores nothing', 'auto deadline = std::chrono::steady_clock::now() + kPatience;',
         'auto deadline = std::chrono::steady_clock::now() + kStorePatience;'),
    ]),
    ('neighbours', 'cuda/lane/cuda_lane.cc', [
        ('a word that is late is lost', '} else if (!silent_since_) {\n    silent_since_ = now;\n  } else if (now - *silent_since_ >= kWordPatience) {',
         '} else {'),
    ]),
    ('neighbours', 'cuda/lane/recorded_steps.h', [
        ('a step of a capture', '    refuse_capture(stream, "stream");\n', ''),
    ]),
    ('neighbours', 'test/gpu/bench/kernels/matrix_product.cu', [
        ('the factors are on their way', '  cuda::require(cudaDeviceSynchronize(), "the matrices");\n  PlainStream stream;', '  PlainStream stream;'),
        ('more blocks than fit', 'static_cast<u32>(processors * resident)', 'static_cast<u32>(processors * 8)'),
    ]),
    ('pinned-slabs', 'cuda/memory/pinned_slabs.cc', [
        ('pieces as they were', '  std::memset(piece.base, 0, static_cast<std::size_t>(bytes));\n', ''),
        ('any gap', 'if (room < wanted || room >= gap.second) continue;', 'if (room < wanted) continue;'),
        ('gaps that are too small', 'if (room < wanted || room', 'if (room'),
        ('the rest of a gap is lost', 'if (rest != 0) slab', 'if (rest == 1) slab'),
        ('gaps behind are not joined', 'after->first == offset + bytes', 'false'),
        ('gaps before are not joined', 'std::prev(after)->first + std::prev(after)->second == offset', 'false'),
        ('slabs with pieces are unpinned', '      if (slab->used != 0) continue;\n', ''),
        ('nothing is unpinned', 'if (free <= limits_.kept_bytes) return;', 'return;'),
        ('the smallest slab is unpinned', 'slab->whole.bytes > largest->whole.bytes', 'slab->whole.bytes < largest->whole.bytes'),
        ('no lock', '  const u64 wanted = whole_lines(bytes);\n  const std::lock_guard lock(mutex_);', '  const u64 wanted = whole_lines(bytes);'),
    ]),
]
