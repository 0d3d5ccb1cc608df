// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set by Highway's foreach_target; the wrappers at the end pick at run time.
// Lambdas carry HWY_ATTR because compilers do not hand them the target of the function around them.
#include "megacpp/machine/cpu/simd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "megacpp/machine/cpu/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace megacpp::runtime::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Applies f to whole vectors, then to the tail through a padded buffer: a tail is never worth a scalar copy of f.
template <typename F>
HWY_INLINE void map1(const float* x, float* y, int64_t count, const F& f) {
  const D d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  if (i < n) {
    HWY_ALIGN float tail[hn::MaxLanes(d)] = {};
    for (size_t j = i; j < n; ++j) tail[j - i] = x[j];
    hn::Store(f(d, hn::Load(d, tail)), d, tail);
    for (size_t j = i; j < n; ++j) y[j] = tail[j - i];
  }
}

template <typename F>
HWY_INLINE void map2(const float* a, const float* b, float* z, int64_t count, const F& f) {
  const D d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, z + i);
  if (i < n) {
    HWY_ALIGN float ta[hn::MaxLanes(d)] = {};
    HWY_ALIGN float tb[hn::MaxLanes(d)] = {};
    for (size_t j = i; j < n; ++j) ta[j - i] = a[j], tb[j - i] = b[j];
    hn::Store(f(d, hn::Load(d, ta), hn::Load(d, tb)), d, ta);
    for (size_t j = i; j < n; ++j) z[j] = ta[j - i];
  }
}

// z = f(a, b, z) on vectors; scalar tail given apart because these are one or two operations.
template <typename F, typename S>
HWY_INLINE void map3(const float* a, const float* b, float* z, int64_t count, const F& f, const S& scalar) {
  const D d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, z + i)), d, z + i);
  for (; i < n; ++i) z[i] = scalar(a[i], b[i], z[i]);
}

// Four accumulators hide the latency of the add; their order is fixed, so sums repeat bit for bit.
template <typename F, typename S>
HWY_INLINE float fold_sum(int64_t count, const F& term, const S& scalar) {
  const D d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = term(d, i, s0);
    s1 = term(d, i + lanes, s1);
    s2 = term(d, i + 2 * lanes, s2);
    s3 = term(d, i + 3 * lanes, s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = term(d, i, s0);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) sum += scalar(i);
  return sum;
}

// exp(x); 0 where the result would be subnormal, so masked scores (-1e30) are safe; infinity above the largest float.
// Range reduction x = k ln2 + r with |r| <= ln2/2, then a degree-6 polynomial: error under 2 ulp.
HWY_INLINE V fast_exp(D d, V x) {
  const hn::RebindToUnsigned<D> du;  // exponents of numbers out of range wrap, and are replaced below
  const V low = hn::Set(d, -87.33654F), high = hn::Set(d, 88.72283F);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits: cheaper than a rounding and a conversion.
  const V magic = hn::Set(d, 12582912.0F);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const V k = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(k, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4F), r);
  V p = hn::Set(d, 1.9875691500e-4F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, hn::Set(d, 1.0F)));
  // Times 2^k: k is added to the exponent field of p, which is in [0.7, 1.42].
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  const V value = hn::BitCast(d, hn::Add(hn::BitCast(du, p), exponent));
  const V bounded = hn::IfThenElse(hn::Gt(x, high), hn::Set(d, std::numeric_limits<float>::infinity()), value);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(hn::Lt(x, low), bounded));
}

// Instruction sets disagree on max(NaN, x): here a NaN on either side always comes through.
HWY_INLINE V or_nan(V a, V b, V value) {
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, value));
}

void Exp(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR { return fast_exp(d, v); });
}
// Highway's logarithms hold for positive finite arguments only: others are kept from them, and put right after.
HWY_INLINE auto in_log_domain(D d, V argument) {
  return hn::And(hn::Gt(argument, hn::Zero(d)), hn::Lt(argument, hn::Set(d, std::numeric_limits<float>::infinity())));
}
HWY_INLINE V with_log_edges(D d, V argument, V value) {
  const V zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V others =
      hn::IfThenElse(hn::Eq(argument, infinity), infinity, hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
  const V edges = hn::IfThenElse(hn::Eq(argument, zero), hn::Neg(infinity), others);
  return hn::IfThenElse(in_log_domain(d, argument), value, edges);
}
void Log(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR {
    const V safe = hn::IfThenElse(in_log_domain(d, v), v, hn::Set(d, 1.0F));
    return with_log_edges(d, v, hn::Log(d, safe));
  });
}
void Log1p(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR {
    const V argument = hn::Add(v, hn::Set(d, 1.0F));
    const V safe = hn::IfThenElse(in_log_domain(d, argument), v, hn::Zero(d));
    return with_log_edges(d, argument, hn::Log1p(d, safe));
  });
}
// tanh by 1 - 2/(exp(2x)+1), and by its series near zero where that cancels.
void Tanh(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR {
    const V one = hn::Set(d, 1.0F), two = hn::Set(d, 2.0F);
    const V large = hn::Sub(one, hn::Div(two, hn::Add(fast_exp(d, hn::Mul(two, v)), one)));
    const V v2 = hn::Mul(v, v);
    V p = hn::Set(d, 62.0F / 2835.0F);
    p = hn::MulAdd(p, v2, hn::Set(d, -17.0F / 315.0F));
    p = hn::MulAdd(p, v2, hn::Set(d, 2.0F / 15.0F));
    p = hn::MulAdd(p, v2, hn::Set(d, -1.0F / 3.0F));
    const V small = hn::MulAdd(hn::Mul(p, v2), v, v);
    return hn::IfThenElse(hn::Lt(hn::Abs(v), hn::Set(d, 0.15F)), small, large);
  });
}
void Logistic(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR {
    const V one = hn::Set(d, 1.0F);
    return hn::Div(one, hn::Add(one, fast_exp(d, hn::Neg(v))));
  });
}
void Sqrt(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D, V v) HWY_ATTR { return hn::Sqrt(v); });
}
void Rsqrt(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR { return hn::Div(hn::Set(d, 1.0F), hn::Sqrt(v)); });
}
void Sin(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR { return hn::Sin(d, v); });
}
void Cos(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR { return hn::Cos(d, v); });
}
void Neg(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D, V v) HWY_ATTR { return hn::Neg(v); });
}
void Abs(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D, V v) HWY_ATTR { return hn::Abs(v); });
}
void Sign(const float* x, float* y, int64_t n) {
  map1(x, y, n, [](D d, V v) HWY_ATTR {
    const V zero = hn::Zero(d), one = hn::Set(d, 1.0F);
    return hn::Sub(hn::IfThenElseZero(hn::Gt(v, zero), one), hn::IfThenElseZero(hn::Lt(v, zero), one));
  });
}

void Add(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D, V u, V v) HWY_ATTR { return hn::Add(u, v); });
}
void Sub(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D, V u, V v) HWY_ATTR { return hn::Sub(u, v); });
}
void Mul(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D, V u, V v) HWY_ATTR { return hn::Mul(u, v); });
}
void Div(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D, V u, V v) HWY_ATTR { return hn::Div(u, v); });
}
void Max(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D, V u, V v) HWY_ATTR { return or_nan(u, v, hn::Max(u, v)); });
}
void Min(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D, V u, V v) HWY_ATTR { return or_nan(u, v, hn::Min(u, v)); });
}
void Lt(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D d, V u, V v) HWY_ATTR { return hn::IfThenElseZero(hn::Lt(u, v), hn::Set(d, 1.0F)); });
}
void Le(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D d, V u, V v) HWY_ATTR { return hn::IfThenElseZero(hn::Le(u, v), hn::Set(d, 1.0F)); });
}
void Eq(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D d, V u, V v) HWY_ATTR { return hn::IfThenElseZero(hn::Eq(u, v), hn::Set(d, 1.0F)); });
}
void Ne(const float* a, const float* b, float* z, int64_t n) {
  map2(a, b, z, n, [](D d, V u, V v) HWY_ATTR { return hn::IfThenElseZero(hn::Ne(u, v), hn::Set(d, 1.0F)); });
}
void Select(const float* p, const float* a, const float* b, float* z, int64_t count) {
  const D d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto mask = hn::Ne(hn::LoadU(d, p + i), hn::Zero(d));
    hn::StoreU(hn::IfThenElse(mask, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, z + i);
  }
  for (; i < n; ++i) z[i] = p[i] != 0.0F ? a[i] : b[i];
}

void Fill(float value, float* y, int64_t n) { std::fill_n(y, n, value); }
void Scale(float factor, const float* x, float* y, int64_t n) {
  map1(x, y, n, [factor](D d, V v) HWY_ATTR { return hn::Mul(hn::Set(d, factor), v); });
}
void Offset(float amount, const float* x, float* y, int64_t n) {
  map1(x, y, n, [amount](D d, V v) HWY_ATTR { return hn::Add(hn::Set(d, amount), v); });
}
void Axpy(float factor, const float* x, float* y, int64_t n) {
  map3(
      x, x, y, n, [factor](D d, V v, V, V w) HWY_ATTR { return hn::MulAdd(hn::Set(d, factor), v, w); },
      [factor](float v, float, float w) { return std::fma(factor, v, w); });
}
void MulAdd(const float* a, const float* b, float* y, int64_t n) {
  map3(
      a, b, y, n, [](D, V u, V v, V w) HWY_ATTR { return hn::MulAdd(u, v, w); },
      [](float u, float v, float w) { return std::fma(u, v, w); });
}

float Sum(const float* x, int64_t n) {
  return fold_sum(
      n, [x](D d, size_t i, V s) HWY_ATTR { return hn::Add(s, hn::LoadU(d, x + i)); }, [x](size_t i) { return x[i]; });
}
float Dot(const float* a, const float* b, int64_t n) {
  return fold_sum(
      n, [a, b](D d, size_t i, V s) HWY_ATTR { return hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s); },
      [a, b](size_t i) { return a[i] * b[i]; });
}
float MaxValue(const float* x, int64_t count) {
  const D d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  V best = hn::Set(d, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) best = hn::Max(best, hn::LoadU(d, x + i));
  // MaxOfLanes makes the least finite number of lanes that are all -inf, by some versions of Highway.
  HWY_ALIGN float lane[hn::MaxLanes(d)];
  hn::Store(best, d, lane);
  float value = lane[0];
  for (size_t k = 1; k < lanes; ++k) value = lane[k] > value ? lane[k] : value;
  for (; i < n; ++i) value = x[i] > value ? x[i] : value;
  return value;
}
float ExpSum(const float* x, float shift, float* y, int64_t count) {
  const D d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  const V s = hn::Set(d, shift);
  V s0 = hn::Zero(d), s1 = s0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V e0 = fast_exp(d, hn::Sub(hn::LoadU(d, x + i), s));
    const V e1 = fast_exp(d, hn::Sub(hn::LoadU(d, x + i + lanes), s));
    hn::StoreU(e0, d, y + i);
    hn::StoreU(e1, d, y + i + lanes);
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  if (i < n) {
    map1(x + i, y + i, static_cast<int64_t>(n - i),
         [shift](D dd, V v) HWY_ATTR { return fast_exp(dd, hn::Sub(v, hn::Set(dd, shift))); });
    for (; i < n; ++i) sum += y[i];
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace megacpp::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace megacpp::runtime::cpu {

#define MEGACPP_ROW1(name, Name) \
  HWY_EXPORT(Name);              \
  void name(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Name)(x, y, n); }
#define MEGACPP_ROW2(name, Name) \
  HWY_EXPORT(Name);              \
  void name(const float* a, const float* b, float* z, int64_t n) { HWY_DYNAMIC_DISPATCH(Name)(a, b, z, n); }

MEGACPP_ROW1(row_exp, Exp)
MEGACPP_ROW1(row_log, Log)
MEGACPP_ROW1(row_log1p, Log1p)
MEGACPP_ROW1(row_tanh, Tanh)
MEGACPP_ROW1(row_logistic, Logistic)
MEGACPP_ROW1(row_sqrt, Sqrt)
MEGACPP_ROW1(row_rsqrt, Rsqrt)
MEGACPP_ROW1(row_sin, Sin)
MEGACPP_ROW1(row_cos, Cos)
MEGACPP_ROW1(row_neg, Neg)
MEGACPP_ROW1(row_abs, Abs)
MEGACPP_ROW1(row_sign, Sign)
MEGACPP_ROW2(row_add, Add)
MEGACPP_ROW2(row_sub, Sub)
MEGACPP_ROW2(row_mul, Mul)
MEGACPP_ROW2(row_div, Div)
MEGACPP_ROW2(row_max, Max)
MEGACPP_ROW2(row_min, Min)
MEGACPP_ROW2(row_lt, Lt)
MEGACPP_ROW2(row_le, Le)
MEGACPP_ROW2(row_eq, Eq)
MEGACPP_ROW2(row_ne, Ne)
MEGACPP_ROW2(row_mul_add, MulAdd)
#undef MEGACPP_ROW1
#undef MEGACPP_ROW2

HWY_EXPORT(Select);
HWY_EXPORT(Fill);
HWY_EXPORT(Scale);
HWY_EXPORT(Offset);
HWY_EXPORT(Axpy);
HWY_EXPORT(Sum);
HWY_EXPORT(Dot);
HWY_EXPORT(MaxValue);
HWY_EXPORT(ExpSum);

void row_select(const float* p, const float* a, const float* b, float* z, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Select)(p, a, b, z, n);
}
void row_fill(float value, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Fill)(value, y, n); }
void row_scale(float factor, const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Scale)(factor, x, y, n); }
void row_offset(float amount, const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Offset)(amount, x, y, n); }
void row_axpy(float factor, const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Axpy)(factor, x, y, n); }
float row_sum(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(Sum)(x, n); }
float row_max_value(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(MaxValue)(x, n); }
float row_dot(const float* a, const float* b, int64_t n) { return HWY_DYNAMIC_DISPATCH(Dot)(a, b, n); }
float row_sum_squares(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(Dot)(x, x, n); }
float row_exp_sum(const float* x, float shift, float* y, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(ExpSum)(x, shift, y, n);
}

}  // namespace megacpp::runtime::cpu
#endif  // HWY_ONCE
