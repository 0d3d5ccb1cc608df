// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set by Highway's foreach_target; the wrapper at the end picks at run time.
// Vectors compute in f64 what Philox::normal() computes with the C library, and differ from it in the last bits of
// that. After rounding to f32 hardly any of these are left: a block of values where some might be is drawn one by one.
#include "megacpp/core/base/philox_normals.h"

#include <algorithm>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "megacpp/core/base/philox_normals.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace megacpp::base {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // has no products of 32-bit halves, and one lane gains nothing: all are drawn one by one

size_t FillBlocks(const Philox&, double, uint64_t, float*, size_t) { return 0; }

#else

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using DU = hn::RebindToUnsigned<D>;
using DF = hn::Rebind<float, D>;
using V = hn::Vec<D>;
using VU = hn::Vec<DU>;

// Of a normal's radius: far above what both ways can be wrong by, some 1e-15, and far below the spacing of f32.
constexpr double kDoubt = 1e-14;

// The four words of one counter in each lane; only the low halves count until the end.
HWY_INLINE void draw_words(const Philox& random, uint64_t counter, VU& c0, VU& c1, VU& c2, VU& c3) {
  const DU d;
  const hn::Repartition<uint32_t, DU> halves;
  const VU index = hn::Add(hn::Iota(d, 0), hn::Set(d, counter));
  const auto multiplier0 = hn::BitCast(halves, hn::Set(d, uint64_t{Philox::kMultiplier0}));
  const auto multiplier1 = hn::BitCast(halves, hn::Set(d, uint64_t{Philox::kMultiplier1}));
  c0 = index;
  c1 = hn::ShiftRight<32>(index);
  c2 = c3 = hn::Zero(d);
  uint32_t k0 = random.key0(), k1 = random.key1();
  for (int round = 0; round < Philox::kRounds; ++round) {
    const VU p0 = hn::MulEven(hn::BitCast(halves, c0), multiplier0);
    const VU p1 = hn::MulEven(hn::BitCast(halves, c2), multiplier1);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, uint64_t{k0}));
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, uint64_t{k1}));
    c1 = p1;
    c3 = p0;
    k0 += Philox::kWeyl0;
    k1 += Philox::kWeyl1;
  }
  const VU low = hn::Set(d, uint64_t{0xFFFFFFFF});
  c0 = hn::And(c0, low);
  c1 = hn::And(c1, low);
  c2 = hn::And(c2, low);
  c3 = hn::And(c3, low);
}

// Exact for integers below 2^52.
HWY_INLINE V number_of(VU integer) {
  const D d;
  const DU du;
  return hn::Sub(hn::BitCast(d, hn::Or(integer, hn::Set(du, uint64_t{0x4330000000000000}))), hn::Set(d, 0x1p52));
}

HWY_INLINE V polynomial(V, double last) { return hn::Set(D(), last); }
/// first + x * (next + ..)
template <typename... Rest>
HWY_INLINE V polynomial(V x, double first, Rest... rest) {
  return hn::MulAdd(polynomial(x, rest...), x, hn::Set(D(), first));
}

// log(x) of normal x > 0. x = 2^k m with m in [sqrt(1/2), sqrt(2)): log m = 2 atanh(s), s = (m - 1) / (m + 1), by its
// series, whose next term would be 6e-19 of the first.
HWY_INLINE V log_of(V x) {
  const D d;
  const DU du;
  const VU one = hn::Set(du, uint64_t{0x3FF0000000000000}), root = hn::Set(du, uint64_t{0x3FE6A09E667F3BCD});
  const VU bits = hn::Add(hn::BitCast(du, x), hn::Sub(one, root));
  const V k = hn::Sub(number_of(hn::ShiftRight<52>(bits)), hn::Set(d, 1023.0));
  const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(du, uint64_t{0xFFFFFFFFFFFFF})), root));
  const V f = hn::Sub(m, hn::Set(d, 1.0)), s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0))), z = hn::Mul(s, s);
  const V series = polynomial(z, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                              1.0 / 19, 1.0 / 21);
  return hn::MulAdd(k, hn::Set(d, std::numbers::ln2), hn::Mul(hn::Add(s, s), series));
}

// cos and sin of 2 pi (word + 1/2) / 2^32: q quarter turns and an angle of at most pi / 4, by their series.
HWY_INLINE void turn_of(VU word, V& cosine, V& sine) {
  const D d;
  const DU du;
  const VU q = hn::ShiftRight<30>(hn::Add(word, hn::Set(du, uint64_t{1} << 29)));
  const V turns = hn::Mul(hn::Add(number_of(word), hn::Set(d, 0.5)), hn::Set(d, 0x1p-30));
  const V r = hn::Mul(hn::Sub(turns, number_of(q)), hn::Set(d, std::numbers::pi / 2)), z = hn::Mul(r, r);
  const V c = polynomial(z, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                         -1.0 / 87178291200, 1.0 / 20922789888000);
  const V s = hn::Mul(r, polynomial(z, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                    1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000));
  const VU one = hn::Set(du, uint64_t{1}), two = hn::Set(du, uint64_t{2});
  const auto is_swapped = hn::MaskFromVec(hn::BitCast(d, hn::Sub(hn::Zero(du), hn::And(q, one))));
  const VU cosine_sign = hn::ShiftLeft<62>(hn::And(hn::Add(q, one), two)),
           sine_sign = hn::ShiftLeft<62>(hn::And(q, two));
  cosine = hn::BitCast(d, hn::Xor(hn::BitCast(du, hn::IfThenElse(is_swapped, s, c)), cosine_sign));
  sine = hn::BitCast(d, hn::Xor(hn::BitCast(du, hn::IfThenElse(is_swapped, c, s)), sine_sign));
}

// The two normals of each pair of words times the deviation; whether the C library's would be the same.
HWY_INLINE bool normals_of(VU word0, VU word1, double deviation, hn::Vec<DF>& even, hn::Vec<DF>& odd) {
  const D d;
  const DF df;
  const hn::RebindToUnsigned<DF> bits;
  const V uniform = hn::Mul(hn::Add(number_of(word0), hn::Set(d, 0.5)), hn::Set(d, 0x1p-32));
  const V radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), log_of(uniform))), doubt = hn::Mul(radius, hn::Set(d, kDoubt));
  const V scale = hn::Set(d, deviation);
  V cosine, sine;
  turn_of(word1, cosine, sine);
  const V x = hn::Mul(radius, cosine), y = hn::Mul(radius, sine);
  even = hn::DemoteTo(df, hn::Mul(scale, hn::Sub(x, doubt)));
  odd = hn::DemoteTo(df, hn::Mul(scale, hn::Sub(y, doubt)));
  const auto even_above = hn::DemoteTo(df, hn::Mul(scale, hn::Add(x, doubt)));
  const auto odd_above = hn::DemoteTo(df, hn::Mul(scale, hn::Add(y, doubt)));
  return hn::AllTrue(bits, hn::And(hn::Eq(hn::BitCast(bits, even), hn::BitCast(bits, even_above)),
                                   hn::Eq(hn::BitCast(bits, odd), hn::BitCast(bits, odd_above))));
}

// Whole blocks of four values of every lane from element 4 * counter on; how many values that is.
size_t FillBlocks(const Philox& random, double deviation, uint64_t counter, float* values, size_t count) {
  const D d;
  const DF df;
  const size_t lanes = hn::Lanes(d), block = 4 * lanes;
  size_t done = 0;
  for (; done + block <= count; done += block, counter += lanes) {
    VU c0, c1, c2, c3;
    draw_words(random, counter, c0, c1, c2, c3);
    hn::Vec<DF> v0, v1, v2, v3;
    const bool first = normals_of(c0, c1, deviation, v0, v1), second = normals_of(c2, c3, deviation, v2, v3);
    if (first && second)
      hn::StoreInterleaved4(v0, v1, v2, v3, df, values + done);
    else
      for (size_t i = 0; i < block; ++i)
        values[done + i] = static_cast<float>(deviation * random.normal(4 * counter + i));
  }
  return done;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace megacpp::base
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megacpp::base {

HWY_EXPORT(FillBlocks);

void fill_normals(const Philox& random, double deviation, uint64_t first, std::span<float> values) {
  const auto one_by_one = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) values[i] = static_cast<float>(deviation * random.normal(first + i));
  };
  const size_t head = std::min<size_t>((4 - first % 4) % 4, values.size());
  one_by_one(0, head);
  const size_t blocks = HWY_DYNAMIC_DISPATCH(FillBlocks)(random, deviation, (first + head) / 4, values.data() + head,
                                                         values.size() - head);
  one_by_one(head + blocks, values.size());
}

}  // namespace megacpp::base
#endif  // HWY_ONCE
