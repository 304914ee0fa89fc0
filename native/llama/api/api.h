// The part of llama.cpp's C API that this addon uses, declared here so that the build needs no file
// of llama.cpp. The library is loaded at run time (library.h), and only in versions that match
// these declarations. test/executors/llama-cpp/api compares them with llama.cpp's headers, field by
// field. Names are llama.cpp's. This file includes no header, so that the test can include it in a
// separate namespace beside the original.

struct llama_model;
struct llama_context;
struct llama_adapter_lora;
struct llama_vocab;
struct llama_sampler;
struct llama_memory_i;
struct ggml_backend_device;
struct ggml_backend;
struct ggml_backend_reg;
struct ggml_backend_buffer;
struct ggml_backend_buffer_type;
struct ggml_context;
struct ggml_cgraph;
struct ggml_threadpool;
struct ggml_tensor;
struct llama_model_tensor_buft_override;
struct llama_model_kv_override;
struct llama_sampler_seq_config;

typedef llama_memory_i* llama_memory_t;
typedef ggml_backend_device* ggml_backend_dev_t;
typedef ggml_backend* ggml_backend_t;
typedef ggml_backend_reg* ggml_backend_reg_t;
typedef ggml_backend_buffer_type* ggml_backend_buffer_type_t;
typedef int32_t llama_pos;
typedef int32_t llama_token;
typedef int32_t llama_seq_id;

typedef bool (*llama_progress_callback)(float progress, void* user_data);
typedef bool (*ggml_abort_callback)(void* data);
typedef bool (*ggml_backend_sched_eval_callback)(ggml_tensor* t, bool ask, void* user_data);

enum ggml_log_level : int32_t { GGML_LOG_LEVEL_WARN = 3, GGML_LOG_LEVEL_ERROR = 4 };
typedef void (*ggml_log_callback)(ggml_log_level level, const char* text, void* user_data);

enum ggml_type : int32_t { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_Q8_0 = 8 };
enum ggml_op : int32_t { GGML_OP_NONE = 0, GGML_OP_FLASH_ATTN_EXT = 74 };
enum ggml_status : int32_t { GGML_STATUS_SUCCESS = 0 };
enum ggml_backend_dev_type : int32_t { GGML_BACKEND_DEVICE_TYPE_CPU = 0, GGML_BACKEND_DEVICE_TYPE_GPU = 1, GGML_BACKEND_DEVICE_TYPE_IGPU = 2 };
enum llama_split_mode : int32_t { LLAMA_SPLIT_MODE_NONE = 0 };
enum llama_load_mode : int32_t { LLAMA_LOAD_MODE_AUTO = -1, LLAMA_LOAD_MODE_NONE = 0, LLAMA_LOAD_MODE_MMAP = 1 };
enum llama_lazy_mode : int32_t { LLAMA_LAZY_MODE_OFF = 0 };
enum llama_context_type : int32_t { LLAMA_CONTEXT_TYPE_DEFAULT = 0 };
enum llama_rope_scaling_type : int32_t { LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED = -1 };
enum llama_pooling_type : int32_t { LLAMA_POOLING_TYPE_UNSPECIFIED = -1, LLAMA_POOLING_TYPE_NONE = 0, LLAMA_POOLING_TYPE_RANK = 4 };
enum llama_attention_type : int32_t { LLAMA_ATTENTION_TYPE_UNSPECIFIED = -1 };
enum llama_flash_attn_type : int32_t { LLAMA_FLASH_ATTN_TYPE_AUTO = -1, LLAMA_FLASH_ATTN_TYPE_DISABLED = 0, LLAMA_FLASH_ATTN_TYPE_ENABLED = 1 };

struct ggml_tensor {
  ggml_type type;
  ggml_backend_buffer* buffer;
  int64_t ne[4];
  size_t nb[4];
  ggml_op op;
  int32_t op_params[16];
  int32_t flags;
  ggml_tensor* src[10];
  ggml_tensor* view_src;
  size_t view_offs;
  void* data;
  char name[64];
  void* extra;
  char padding[8];
};

struct ggml_init_params {
  size_t mem_size;
  void* mem_buffer;
  bool no_alloc;
};

struct ggml_threadpool_params {
  bool cpumask[512];
  int n_threads;
  int32_t prio;
  uint32_t poll;
  bool strict_cpu;
  bool paused;
};

// From headers that llama.cpp does not publish:
struct ggml_backend_buffer_type_i {
  void* get_name;
  void* alloc_buffer;
  void* get_alignment;
  void* get_max_size;
  void* get_alloc_size;
  void* is_host;
};

struct ggml_backend_buffer_type {
  ggml_backend_buffer_type_i iface;
  ggml_backend_dev_t device;
  void* context;
};

struct ggml_compute_params {
  int ith;
  int nth;
  size_t wsize;
  void* wdata;
  ggml_threadpool* threadpool;
  bool use_ref;
};

struct llama_model_params {
  ggml_backend_dev_t* devices;
  const llama_model_tensor_buft_override* tensor_buft_overrides;
  int32_t n_gpu_layers;
  llama_split_mode split_mode;
  llama_load_mode load_mode;
  llama_lazy_mode lazy_mode;
  int32_t main_gpu;
  const float* tensor_split;
  llama_progress_callback progress_callback;
  void* progress_callback_user_data;
  const llama_model_kv_override* kv_overrides;
  bool vocab_only;
  bool check_tensors;
  bool use_extra_bufts;
  bool no_host;
  bool no_alloc;
  bool load_mtp;
};

struct llama_context_params {
  uint32_t n_ctx;
  uint32_t n_batch;
  uint32_t n_ubatch;
  uint32_t n_seq_max;
  uint32_t n_rs_seq;
  uint32_t n_outputs_max;
  uint32_t n_outputs_max_per_seq;
  int32_t n_threads;
  int32_t n_threads_batch;
  llama_context_type ctx_type;
  llama_rope_scaling_type rope_scaling_type;
  enum llama_pooling_type pooling_type;
  llama_attention_type attention_type;
  llama_flash_attn_type flash_attn_type;
  float rope_freq_base;
  float rope_freq_scale;
  float yarn_ext_factor;
  float yarn_attn_factor;
  float yarn_beta_fast;
  float yarn_beta_slow;
  uint32_t yarn_orig_ctx;
  float defrag_thold;
  ggml_backend_sched_eval_callback cb_eval;
  void* cb_eval_user_data;
  ggml_type type_k;
  ggml_type type_v;
  ggml_abort_callback abort_callback;
  void* abort_callback_data;
  bool embeddings;
  bool offload_kqv;
  bool no_perf;
  bool op_offload;
  bool swa_full;
  bool kv_unified;
  llama_sampler_seq_config* samplers;
  size_t n_samplers;
  llama_context* ctx_other;
};

struct llama_batch {
  int32_t n_tokens;
  llama_token* token;
  float* embd;
  llama_pos* pos;
  int32_t* n_seq_id;
  llama_seq_id** seq_id;
  int8_t* logits;
};

struct llama_token_data {
  llama_token id;
  float logit;
  float p;
};

struct llama_token_data_array {
  llama_token_data* data;
  size_t size;
  int64_t selected;
  bool sorted;
};

// In libllama:
const char* llama_version();
void llama_log_set(ggml_log_callback log_callback, void* user_data);
void llama_backend_init();
size_t llama_max_parallel_sequences();
llama_model_params llama_model_default_params();
llama_context_params llama_context_default_params();
llama_model* llama_model_load_from_file(const char* path_model, llama_model_params params);
void llama_model_free(llama_model* model);
llama_adapter_lora* llama_adapter_lora_init(llama_model* model, const char* path_lora);
int32_t llama_set_adapters_lora(llama_context* ctx, llama_adapter_lora** adapters, size_t n_adapters, float* scales);
llama_context* llama_init_from_model(llama_model* model, llama_context_params params);
void llama_free(llama_context* ctx);
void llama_attach_threadpool(llama_context* ctx, ggml_threadpool* threadpool, ggml_threadpool* threadpool_batch);
uint32_t llama_n_ctx(const llama_context* ctx);
enum llama_pooling_type llama_pooling_type(const llama_context* ctx);
llama_memory_t llama_get_memory(const llama_context* ctx);
const llama_vocab* llama_model_get_vocab(const llama_model* model);
int32_t llama_model_n_ctx_train(const llama_model* model);
int32_t llama_model_n_layer(const llama_model* model);
int32_t llama_model_n_embd_out(const llama_model* model);
uint32_t llama_model_n_cls_out(const llama_model* model);
int32_t llama_model_n_swa(const llama_model* model);
bool llama_model_has_encoder(const llama_model* model);
bool llama_model_has_decoder(const llama_model* model);
bool llama_model_is_recurrent(const llama_model* model);
bool llama_model_is_hybrid(const llama_model* model);
bool llama_model_is_diffusion(const llama_model* model);
uint64_t llama_model_size(const llama_model* model);
uint64_t llama_model_n_params(const llama_model* model);
int32_t llama_model_desc(const llama_model* model, char* buf, size_t buf_size);
int32_t llama_model_meta_val_str(const llama_model* model, const char* key, char* buf, size_t buf_size);
const char* llama_model_chat_template(const llama_model* model, const char* name);
int32_t llama_vocab_n_tokens(const llama_vocab* vocab);
bool llama_vocab_is_eog(const llama_vocab* vocab, llama_token token);
const char* llama_vocab_get_text(const llama_vocab* vocab, llama_token token);
llama_token llama_vocab_bos(const llama_vocab* vocab);
llama_token llama_vocab_eos(const llama_vocab* vocab);
llama_token llama_vocab_eot(const llama_vocab* vocab);
llama_token llama_vocab_sep(const llama_vocab* vocab);
bool llama_vocab_get_add_bos(const llama_vocab* vocab);
bool llama_vocab_get_add_eos(const llama_vocab* vocab);
bool llama_vocab_get_add_sep(const llama_vocab* vocab);
int32_t llama_tokenize(const llama_vocab* vocab, const char* text, int32_t text_len, llama_token* tokens, int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const llama_vocab* vocab, llama_token token, char* buf, int32_t length, int32_t lstrip, bool special);
void llama_memory_clear(llama_memory_t mem, bool data);
bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1);
void llama_memory_seq_cp(llama_memory_t mem, llama_seq_id seq_id_src, llama_seq_id seq_id_dst, llama_pos p0, llama_pos p1);
llama_pos llama_memory_seq_pos_min(llama_memory_t mem, llama_seq_id seq_id);
llama_pos llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id);
size_t llama_state_seq_get_size(llama_context* ctx, llama_seq_id seq_id);
size_t llama_state_seq_get_data(llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id);
size_t llama_state_seq_set_data(llama_context* ctx, const uint8_t* src, size_t size, llama_seq_id dest_seq_id);
int32_t llama_decode(llama_context* ctx, llama_batch batch);
void llama_set_abort_callback(llama_context* ctx, ggml_abort_callback abort_callback, void* abort_callback_data);
void llama_synchronize(llama_context* ctx);
float* llama_get_embeddings_seq(llama_context* ctx, llama_seq_id seq_id);
float* llama_get_logits_ith(llama_context* ctx, int32_t i);
void llama_sampler_accept(llama_sampler* smpl, llama_token token);
void llama_sampler_apply(llama_sampler* smpl, llama_token_data_array* cur_p);
void llama_sampler_free(llama_sampler* smpl);
llama_sampler* llama_sampler_init_top_k(int32_t k);
llama_sampler* llama_sampler_init_top_p(float p, size_t min_keep);
llama_sampler* llama_sampler_init_min_p(float p, size_t min_keep);
llama_sampler* llama_sampler_init_grammar(const llama_vocab* vocab, const char* grammar_str, const char* grammar_root);

// In libggml:
void ggml_backend_load_all_from_path(const char* dir_path);
size_t ggml_backend_dev_count();
ggml_backend_dev_t ggml_backend_dev_get(size_t index);
ggml_backend_dev_t ggml_backend_dev_by_type(enum ggml_backend_dev_type type);

// In libggml-base:
const char* ggml_commit();
const char* ggml_backend_dev_name(ggml_backend_dev_t device);
const char* ggml_backend_dev_description(ggml_backend_dev_t device);
void ggml_backend_dev_memory(ggml_backend_dev_t device, size_t* free, size_t* total);
enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t device);
ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device);
void* ggml_backend_reg_get_proc_address(ggml_backend_reg_t reg, const char* name);
ggml_backend_t ggml_backend_dev_init(ggml_backend_dev_t device, const char* params);
void ggml_backend_free(ggml_backend_t backend);
enum ggml_status ggml_backend_graph_compute(ggml_backend_t backend, ggml_cgraph* cgraph);
ggml_context* ggml_init(ggml_init_params params);
void ggml_free(ggml_context* ctx);
ggml_tensor* ggml_new_tensor_4d(ggml_context* ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);
ggml_tensor* ggml_flash_attn_ext(ggml_context* ctx, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v, ggml_tensor* mask, float scale, float max_bias, float logit_softcap);
void ggml_flash_attn_ext_add_sinks(ggml_tensor* a, ggml_tensor* sinks);
size_t ggml_quantize_chunk(enum ggml_type type, const float* src, void* dst, int64_t start, int64_t nrows, int64_t n_per_row, const float* imatrix);
ggml_cgraph* ggml_new_graph(ggml_context* ctx);
void ggml_build_forward_expand(ggml_cgraph* cgraph, ggml_tensor* tensor);
ggml_threadpool_params ggml_threadpool_params_default(int n_threads);
