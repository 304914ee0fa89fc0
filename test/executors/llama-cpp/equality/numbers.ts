// The number formats of a model.

/** In which numbers a model computes: its cache, and whether by flash attention, by llama.cpp's numbers and by the executor's options. */
export interface NumberType {
  readonly type: number;
  readonly flash: number;
  readonly options: { readonly cacheType: 'f32' | 'f16'; readonly flashAttention: 'on' | 'off' };
  /** Of two tokens that are so near each other either may come: sums in another order differ. */
  readonly nearness: number;
}

/** Every token is that of the model alone, but where two of them are as good as equal. */
export const EXACT: NumberType = {
  type: 0,
  flash: 0,
  options: { cacheType: 'f32', flashAttention: 'off' },
  nearness: 1e-3,
};

/** As `EXACT`, with flash attention: llama.cpp rounds keys and values to 16 bits then, whatever the cache has. */
export const FLASH: NumberType = {
  type: 0,
  flash: 1,
  options: { cacheType: 'f32', flashAttention: 'on' },
  nearness: 1e-3,
};

/**
 * A cache as in `EXACT` for weights of fewer bits. llama.cpp rounds the factors that it multiplies
 * with them. Another batch has another order of sums, which is rounded to other numbers.
 */
export const ROUNDED: NumberType = { ...EXACT, nearness: 0.25 };

/** As models are run. */
export const USUAL: NumberType = {
  type: 1,
  flash: 1,
  options: { cacheType: 'f16', flashAttention: 'on' },
  nearness: 0.25,
};

/** As models of fewer bits are run. Of 1,900 requests 7 parted where the likeliest tokens were more than 0.25 apart, the farthest by 0.41. */
export const USUAL_ROUNDED: NumberType = { ...USUAL, nearness: 0.5 };
