// The bodies for processors with AVX-512 and with AVX2.
#include "kernel.h"

#if defined(__x86_64__) && !defined(_MSC_VER)

#include <immintrin.h>

#include <cmath>

#include "reads.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC's own intrinsics use uninitialised values.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace blockstep::llama {
namespace avx512 {

#define BODY_TARGET target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")
#define BODY_FN __attribute__((BODY_TARGET))
#define BODY_INLINE __attribute__((BODY_TARGET, always_inline)) inline

struct Lanes {
  using V = __m512;
  static constexpr int kWidth = 16, kRows = 6, kColumns = 4;

  BODY_INLINE static V all(float x) { return _mm512_set1_ps(x); }
  BODY_INLINE static V load(const float* p) { return _mm512_loadu_ps(p); }
  BODY_INLINE static V load(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  BODY_INLINE static V load(const int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  BODY_INLINE static void store(float* p, V x) { _mm512_storeu_ps(p, x); }
  BODY_INLINE static V add(V a, V b) { return _mm512_add_ps(a, b); }
  BODY_INLINE static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  BODY_INLINE static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  BODY_INLINE static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  BODY_INLINE static V max(V a, V b) { return _mm512_max_ps(a, b); }
  BODY_INLINE static V choose(uint32_t lanes, V a, V b) { return _mm512_mask_mov_ps(b, static_cast<__mmask16>(lanes), a); }
  BODY_INLINE static float sum(V x) { return _mm512_reduce_add_ps(x); }
  BODY_INLINE static float highest(V x) { return _mm512_reduce_max_ps(x); }
  BODY_INLINE static V round(V x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  BODY_INLINE static V power_of_two(V n) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23)); }
  BODY_INLINE static void transpose(V* r) {
    V t[16];
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      r[i] = low_pairs(t[i], t[i + 2]);
      r[i + 1] = high_pairs(t[i], t[i + 2]);
      r[i + 2] = low_pairs(t[i + 1], t[i + 3]);
      r[i + 3] = high_pairs(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
      t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
      t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
      t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
      r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
      r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
      r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
      r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
  }

 private:
  BODY_INLINE static V low_pairs(V a, V b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }
  BODY_INLINE static V high_pairs(V a, V b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }
};

#include "body.h"

#undef BODY_TARGET
}  // namespace avx512

namespace avx2 {

#define BODY_TARGET target("avx2,fma,f16c")

struct Lanes {
  using V = __m256;
  static constexpr int kWidth = 8, kRows = 6, kColumns = 2;

  BODY_INLINE static V all(float x) { return _mm256_set1_ps(x); }
  BODY_INLINE static V load(const float* p) { return _mm256_loadu_ps(p); }
  BODY_INLINE static V load(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  BODY_INLINE static V load(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  BODY_INLINE static void store(float* p, V x) { _mm256_storeu_ps(p, x); }
  BODY_INLINE static V add(V a, V b) { return _mm256_add_ps(a, b); }
  BODY_INLINE static V sub(V a, V b) { return _mm256_sub_ps(a, b); }
  BODY_INLINE static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  BODY_INLINE static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  BODY_INLINE static V max(V a, V b) { return _mm256_max_ps(a, b); }
  BODY_INLINE static V choose(uint32_t lanes, V a, V b) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i own = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(lanes)), bit);
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(own, bit)));
  }
  BODY_INLINE static float sum(V x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  BODY_INLINE static float highest(V x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
  BODY_INLINE static V round(V x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  BODY_INLINE static V power_of_two(V n) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23)); }
  BODY_INLINE static void transpose(V* r) {
    V t[8];
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
      const V low = r[i], high = r[i + 4];
      r[i] = _mm256_permute2f128_ps(low, high, 0x20);
      r[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
  }
};

#include "body.h"

#undef BODY_TARGET
#undef BODY_FN
#undef BODY_INLINE
}  // namespace avx2

void attend_avx512(const AttentionCall& call, int thread, int threads) { avx512::attend(call, thread, threads); }
void attend_avx2(const AttentionCall& call, int thread, int threads) { avx2::attend(call, thread, threads); }

}  // namespace blockstep::llama

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
