// The functions of llama.cpp that are looked up when its libraries are loaded, grouped by library:
// X(name).
#pragma once

#define BLOCKSTEP_LLAMA_FUNCTIONS(X) \
  X(llama_version) \
  X(llama_log_set) \
  X(llama_backend_init) \
  X(llama_max_parallel_sequences) \
  X(llama_model_default_params) \
  X(llama_context_default_params) \
  X(llama_model_load_from_file) \
  X(llama_model_free) \
  X(llama_adapter_lora_init) \
  X(llama_set_adapters_lora) \
  X(llama_init_from_model) \
  X(llama_free) \
  X(llama_attach_threadpool) \
  X(llama_n_ctx) \
  X(llama_pooling_type) \
  X(llama_get_memory) \
  X(llama_model_get_vocab) \
  X(llama_model_n_ctx_train) \
  X(llama_model_n_layer) \
  X(llama_model_n_embd_out) \
  X(llama_model_n_cls_out) \
  X(llama_model_n_swa) \
  X(llama_model_has_encoder) \
  X(llama_model_has_decoder) \
  X(llama_model_is_recurrent) \
  X(llama_model_is_hybrid) \
  X(llama_model_is_diffusion) \
  X(llama_model_size) \
  X(llama_model_n_params) \
  X(llama_model_desc) \
  X(llama_model_meta_val_str) \
  X(llama_model_chat_template) \
  X(llama_vocab_n_tokens) \
  X(llama_vocab_is_eog) \
  X(llama_vocab_get_text) \
  X(llama_vocab_bos) \
  X(llama_vocab_eos) \
  X(llama_vocab_eot) \
  X(llama_vocab_sep) \
  X(llama_vocab_get_add_bos) \
  X(llama_vocab_get_add_eos) \
  X(llama_vocab_get_add_sep) \
  X(llama_tokenize) \
  X(llama_token_to_piece) \
  X(llama_memory_clear) \
  X(llama_memory_seq_rm) \
  X(llama_memory_seq_cp) \
  X(llama_memory_seq_pos_min) \
  X(llama_memory_seq_pos_max) \
  X(llama_state_seq_get_size) \
  X(llama_state_seq_get_data) \
  X(llama_state_seq_set_data) \
  X(llama_decode) \
  X(llama_set_abort_callback) \
  X(llama_synchronize) \
  X(llama_get_logits_ith) \
  X(llama_get_embeddings_seq) \
  X(llama_sampler_accept) \
  X(llama_sampler_apply) \
  X(llama_sampler_free) \
  X(llama_sampler_init_top_k) \
  X(llama_sampler_init_top_p) \
  X(llama_sampler_init_min_p) \
  X(llama_sampler_init_grammar)

#define BLOCKSTEP_GGML_FUNCTIONS(X) \
  X(ggml_backend_load_all_from_path) \
  X(ggml_backend_dev_count) \
  X(ggml_backend_dev_get) \
  X(ggml_backend_dev_by_type)

#define BLOCKSTEP_GGML_BASE_FUNCTIONS(X) \
  X(ggml_commit) \
  X(ggml_backend_dev_name) \
  X(ggml_backend_dev_description) \
  X(ggml_backend_dev_memory) \
  X(ggml_backend_dev_type) \
  X(ggml_backend_dev_backend_reg) \
  X(ggml_backend_reg_get_proc_address) \
  X(ggml_backend_dev_init) \
  X(ggml_backend_free) \
  X(ggml_backend_graph_compute) \
  X(ggml_init) \
  X(ggml_free) \
  X(ggml_new_tensor_4d) \
  X(ggml_flash_attn_ext) \
  X(ggml_flash_attn_ext_add_sinks) \
  X(ggml_quantize_chunk) \
  X(ggml_new_graph) \
  X(ggml_build_forward_expand) \
  X(ggml_threadpool_params_default)
