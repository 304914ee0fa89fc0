// The `config.json` of a model.

/** The `config.json` of Llama 3.1 8B, as far as it is read. */
export const LLAMA_8B = {
  hidden_size: 4096,
  intermediate_size: 14_336,
  num_attention_heads: 32,
  num_hidden_layers: 32,
  num_key_value_heads: 8,
  vocab_size: 128_256,
  tie_word_embeddings: false,
  torch_dtype: 'bfloat16',
};
