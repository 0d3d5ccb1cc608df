// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set by Highway's foreach_target; the wrappers at the end pick at run time.
#include "megacpp/machine/cpu/kernels/rg_lru_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "megacpp/machine/cpu/kernels/rg_lru_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace megacpp::runtime::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp(x) for x in about [-87, 87], clamped outside; NaN stays NaN. x = k ln2 + r, then the Taylor polynomial of
// degree 7 in r, by pairs so that its chain is short.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V clamped = hn::Min(hn::Max(x, hn::Set(d, -87.0F)), hn::Set(d, 87.0F));
  const V k = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504F)));
  V r = hn::NegMulAdd(k, hn::Set(d, 0.693359375F), clamped);  // ln2 in two parts: k times the first is exact
  r = hn::MulAdd(k, hn::Set(d, 2.12194440e-4F), r);
  const V r2 = hn::Mul(r, r);
  const V p01 = hn::Add(r, hn::Set(d, 1.0F));
  const V p23 = hn::MulAdd(r, hn::Set(d, 1.0F / 6), hn::Set(d, 0.5F));
  const V p45 = hn::MulAdd(r, hn::Set(d, 1.0F / 120), hn::Set(d, 1.0F / 24));
  const V p67 = hn::MulAdd(r, hn::Set(d, 1.0F / 5040), hn::Set(d, 1.0F / 720));
  const V p = hn::MulAdd(hn::MulAdd(hn::MulAdd(p67, r2, p45), r2, p23), r2, p01);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, k), hn::Set(di, 127))));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Mul(p, power));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V logistic_of(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, exp_of(d, hn::Neg(x))));
}

// 1 - a^2 for a = exp(-w): by its series in 2 w where the difference would cancel.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V one_minus_square(D d, V w, V a) {
  const V one = hn::Set(d, 1.0F), u = hn::Add(w, w);
  V series = hn::NegMulAdd(u, hn::Set(d, 1.0F / 7), one);
  series = hn::NegMulAdd(hn::Mul(u, hn::Set(d, 1.0F / 6)), series, one);
  series = hn::NegMulAdd(hn::Mul(u, hn::Set(d, 1.0F / 5)), series, one);
  series = hn::NegMulAdd(hn::Mul(u, hn::Set(d, 1.0F / 4)), series, one);
  series = hn::NegMulAdd(hn::Mul(u, hn::Set(d, 1.0F / 3)), series, one);
  series = hn::NegMulAdd(hn::Mul(u, hn::Set(d, 1.0F / 2)), series, one);
  return hn::IfThenElse(hn::Lt(u, hn::Set(d, 0.3F)), hn::Mul(u, series), hn::NegMulAdd(a, a, one));
}

template <class D>
HWY_INLINE void forward_first_lanes(D d, const RgLruForwardRow& row, size_t i) {
  const auto input = logistic_of(d, hn::LoadU(d, row.input_gate + i));
  hn::StoreU(hn::Mul(input, hn::LoadU(d, row.x + i)), d, row.h + i);
}

template <class D>
HWY_INLINE void forward_lanes(D d, const RgLruForwardRow& row, size_t i) {
  const auto input = logistic_of(d, hn::LoadU(d, row.input_gate + i));
  const auto driven = hn::Mul(input, hn::LoadU(d, row.x + i));
  const auto r = logistic_of(d, hn::LoadU(d, row.recurrence_gate + i));
  const auto w = hn::Mul(r, hn::LoadU(d, row.scale + i));
  const auto a = exp_of(d, hn::Neg(w));
  const auto m = hn::Sqrt(one_minus_square(d, w, a));
  hn::StoreU(hn::MulAdd(a, hn::LoadU(d, row.previous + i), hn::Mul(m, driven)), d, row.h + i);
}

// v (1 - v): the slope of the logistic function from its value.
template <class V>
HWY_INLINE V logistic_slope(V v) {
  return hn::NegMulAdd(v, v, v);
}

template <class D>
HWY_INLINE void backward_first_lanes(D d, const RgLruBackwardRow& row, size_t i) {
  const auto input = logistic_of(d, hn::LoadU(d, row.input_gate + i));
  const auto total = hn::Add(hn::LoadU(d, row.dh + i), hn::LoadU(d, row.carry + i));
  hn::StoreU(hn::Mul(total, input), d, row.dx + i);
  hn::StoreU(hn::Mul(hn::Mul(total, hn::LoadU(d, row.x + i)), logistic_slope(input)), d, row.dinput_gate + i);
  hn::StoreU(hn::Zero(d), d, row.drecurrence_gate + i);
}

template <class D>
HWY_INLINE void backward_lanes(D d, const RgLruBackwardRow& row, size_t i) {
  const auto x = hn::LoadU(d, row.x + i), scale = hn::LoadU(d, row.scale + i);
  const auto input = logistic_of(d, hn::LoadU(d, row.input_gate + i));
  const auto r = logistic_of(d, hn::LoadU(d, row.recurrence_gate + i));
  const auto w = hn::Mul(r, scale);
  const auto a = exp_of(d, hn::Neg(w));
  const auto remainder = one_minus_square(d, w, a);
  const auto total = hn::Add(hn::LoadU(d, row.dh + i), hn::LoadU(d, row.carry + i));
  const auto total_a = hn::Mul(total, a);
  hn::StoreU(total_a, d, row.carry + i);
  const auto driven = hn::Mul(total, hn::Sqrt(remainder));
  hn::StoreU(hn::Mul(driven, input), d, row.dx + i);
  hn::StoreU(hn::Mul(hn::Mul(driven, x), logistic_slope(input)), d, row.dinput_gate + i);
  // The slope of the square root, 1 / sqrt(4 remainder), is capped at 1000.
  const auto slope_root = hn::Sqrt(hn::Max(hn::Mul(remainder, hn::Set(d, 4.0F)), hn::Set(d, 1e-6F)));
  const auto through_m = hn::Div(hn::Mul(hn::Mul(hn::Add(a, a), input), x), slope_root);
  const auto dw = hn::Mul(total_a, hn::Sub(through_m, hn::LoadU(d, row.previous + i)));
  hn::StoreU(hn::MulAdd(dw, r, hn::LoadU(d, row.sum + i)), d, row.sum + i);
  hn::StoreU(hn::Mul(hn::Mul(dw, scale), logistic_slope(r)), d, row.drecurrence_gate + i);
}

// Calls body(tag, i) on whole vectors, then one by one: a wider access would touch a neighbour's channels.
template <typename Body>
HWY_INLINE void for_lanes(int64_t n, const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= static_cast<size_t>(n); i += hn::Lanes(d)) body(d, i);
  for (; i < static_cast<size_t>(n); ++i) body(one, i);
}

void ForwardRow(const RgLruForwardRow& row, int64_t n) {
  if (row.previous == nullptr) return for_lanes(n, [&](auto d, size_t i) HWY_ATTR { forward_first_lanes(d, row, i); });
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR { forward_lanes(d, row, i); });
}

void BackwardRow(const RgLruBackwardRow& row, int64_t n) {
  if (row.previous == nullptr) return for_lanes(n, [&](auto d, size_t i) HWY_ATTR { backward_first_lanes(d, row, i); });
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR { backward_lanes(d, row, i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace megacpp::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megacpp::runtime::cpu {

HWY_EXPORT(ForwardRow);
HWY_EXPORT(BackwardRow);

void rg_lru_forward_row(const RgLruForwardRow& row, int64_t n) { HWY_DYNAMIC_DISPATCH(ForwardRow)(row, n); }
void rg_lru_backward_row(const RgLruBackwardRow& row, int64_t n) { HWY_DYNAMIC_DISPATCH(BackwardRow)(row, n); }

}  // namespace megacpp::runtime::cpu
#endif  // HWY_ONCE
