// The bodies for 64-bit ARM processors, and for other processors.
#include "kernel.h"

#if !defined(_MSC_VER)

#include <cmath>

#include "reads.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace blockstep::llama {

#define BODY_FN
#define BODY_INLINE __attribute__((always_inline)) inline

#if defined(__aarch64__)
namespace neon {

struct Lanes {
  using V = float32x4_t;
  static constexpr int kWidth = 4, kRows = 6, kColumns = 4;

  BODY_INLINE static V all(float x) { return vdupq_n_f32(x); }
  BODY_INLINE static V load(const float* p) { return vld1q_f32(p); }
  BODY_INLINE static V load(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  BODY_INLINE static V load(const int8_t* p) {
    const float own[4] = {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]), static_cast<float>(p[3])};
    return vld1q_f32(own);
  }
  BODY_INLINE static void store(float* p, V x) { vst1q_f32(p, x); }
  BODY_INLINE static V add(V a, V b) { return vaddq_f32(a, b); }
  BODY_INLINE static V sub(V a, V b) { return vsubq_f32(a, b); }
  BODY_INLINE static V mul(V a, V b) { return vmulq_f32(a, b); }
  BODY_INLINE static V fma(V a, V b, V c) { return vfmaq_f32(c, a, b); }
  BODY_INLINE static V max(V a, V b) { return vmaxq_f32(a, b); }
  BODY_INLINE static V choose(uint32_t lanes, V a, V b) {
    static constexpr uint32_t kBits[4] = {1, 2, 4, 8};
    return vbslq_f32(vtstq_u32(vdupq_n_u32(lanes), vld1q_u32(kBits)), a, b);
  }
  BODY_INLINE static float sum(V x) { return vaddvq_f32(x); }
  BODY_INLINE static float highest(V x) { return vmaxvq_f32(x); }
  BODY_INLINE static V round(V x) { return vrndnq_f32(x); }
  BODY_INLINE static V power_of_two(V n) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23)); }
  BODY_INLINE static void transpose(V* r) {
    const float32x4x2_t low = vtrnq_f32(r[0], r[1]), high = vtrnq_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(low.val[0]), vget_low_f32(high.val[0]));
    r[1] = vcombine_f32(vget_low_f32(low.val[1]), vget_low_f32(high.val[1]));
    r[2] = vcombine_f32(vget_high_f32(low.val[0]), vget_high_f32(high.val[0]));
    r[3] = vcombine_f32(vget_high_f32(low.val[1]), vget_high_f32(high.val[1]));
  }
};

#include "body.h"

}  // namespace neon

void attend_neon(const AttentionCall& call, int thread, int threads) { neon::attend(call, thread, threads); }
#endif

namespace plain {

/// Four numbers, which compilers put into 128-bit registers if available.
struct Lanes {
  struct V {
    float x[4];
  };
  static constexpr int kWidth = 4, kRows = 4, kColumns = 2;

#define BODY_EACH(value) \
  V y; \
  for (int i = 0; i < 4; i++) y.x[i] = (value); \
  return y;
  BODY_INLINE static V all(float x) { BODY_EACH(x) }
  BODY_INLINE static V load(const float* p) { BODY_EACH(p[i]) }
  BODY_INLINE static V load(const uint16_t* p) { BODY_EACH(half_to_float(p[i])) }
  BODY_INLINE static V load(const int8_t* p) { BODY_EACH(static_cast<float>(p[i])) }
  BODY_INLINE static void store(float* p, V a) {
    for (int i = 0; i < 4; i++) p[i] = a.x[i];
  }
  BODY_INLINE static V add(V a, V b) { BODY_EACH(a.x[i] + b.x[i]) }
  BODY_INLINE static V sub(V a, V b) { BODY_EACH(a.x[i] - b.x[i]) }
  BODY_INLINE static V mul(V a, V b) { BODY_EACH(a.x[i] * b.x[i]) }
  BODY_INLINE static V fma(V a, V b, V c) { BODY_EACH(a.x[i] * b.x[i] + c.x[i]) }
  BODY_INLINE static V max(V a, V b) { BODY_EACH(a.x[i] > b.x[i] ? a.x[i] : b.x[i]) }
  BODY_INLINE static V choose(uint32_t lanes, V a, V b) { BODY_EACH((lanes >> i & 1) != 0 ? a.x[i] : b.x[i]) }
  BODY_INLINE static V round(V a) { BODY_EACH(std::nearbyint(a.x[i])) }
  BODY_INLINE static V power_of_two(V n) { BODY_EACH(std::ldexp(1.0f, static_cast<int>(n.x[i]))) }
#undef BODY_EACH
  BODY_INLINE static float sum(V a) { return (a.x[0] + a.x[2]) + (a.x[1] + a.x[3]); }
  BODY_INLINE static float highest(V a) {
    const V b = max(a, V{{a.x[2], a.x[3], a.x[0], a.x[1]}});
    return b.x[0] > b.x[1] ? b.x[0] : b.x[1];
  }
  BODY_INLINE static void transpose(V* r) {
    for (int i = 0; i < 4; i++)
      for (int j = i + 1; j < 4; j++) {
        const float kept = r[i].x[j];
        r[i].x[j] = r[j].x[i];
        r[j].x[i] = kept;
      }
  }
};

#include "body.h"

}  // namespace plain

#undef BODY_FN
#undef BODY_INLINE

void attend_plain(const AttentionCall& call, int thread, int threads) { plain::attend(call, thread, threads); }

}  // namespace blockstep::llama

#endif
