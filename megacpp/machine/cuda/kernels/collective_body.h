// SPDX-License-Identifier: Apache-2.0
// What a thread of the collective kernel does, for nvcc and for the host's compiler: tests run it on the CPU, block by
// block and thread by thread, against the transport of the CPU backend. Sums have its order and its rounding: operands
// in the order given, bf16 in f32, rounded once.
#pragma once

#include <cstdint>
#include <cstring>

#include "megacpp/machine/cuda/kernels/collective_params.h"

#ifdef __CUDACC__
#define MEGACPP_COLLECTIVE_CODE __device__ __forceinline__
#else
#define MEGACPP_COLLECTIVE_CODE inline
#endif

namespace megacpp::runtime::cuda::collective {

struct alignas(16) Unit16 {
  uint32_t words[4];
};

template <typename T>
MEGACPP_COLLECTIVE_CODE T load(uint64_t address) {
#ifdef __CUDACC__
  return *reinterpret_cast<const T*>(address);
#else
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
#endif
}

template <typename T>
MEGACPP_COLLECTIVE_CODE void store(uint64_t address, const T& value) {
#ifdef __CUDACC__
  *reinterpret_cast<T*>(address) = value;
#else
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
#endif
}

template <typename To, typename From>
MEGACPP_COLLECTIVE_CODE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// How a dtype is stored and in what it is combined, as in collectives/reduce.cpp.
struct F32 {
  using Stored = float;
  using Sum = float;
  static MEGACPP_COLLECTIVE_CODE Sum load(Stored x) { return x; }
  static MEGACPP_COLLECTIVE_CODE Stored store(Sum x) { return x; }
  static MEGACPP_COLLECTIVE_CODE Sum add(Sum a, Sum b) { return a + b; }
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static MEGACPP_COLLECTIVE_CODE Sum load(Stored x) { return bits_as<float>(static_cast<uint32_t>(x) << 16); }
  // To nearest, ties to even; NaN stays NaN.
  static MEGACPP_COLLECTIVE_CODE Stored store(Sum x) {
    const uint32_t bits = bits_as<uint32_t>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
  static MEGACPP_COLLECTIVE_CODE Sum add(Sum a, Sum b) { return a + b; }
};
struct I32 {
  using Stored = int32_t;
  using Sum = int32_t;
  static MEGACPP_COLLECTIVE_CODE Sum load(Stored x) { return x; }
  static MEGACPP_COLLECTIVE_CODE Stored store(Sum x) { return x; }
  static MEGACPP_COLLECTIVE_CODE Sum add(Sum a, Sum b) {  // wraps
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct Pred {
  using Stored = uint8_t;
  using Sum = uint8_t;
  static MEGACPP_COLLECTIVE_CODE Sum load(Stored x) { return x; }
  static MEGACPP_COLLECTIVE_CODE Stored store(Sum x) { return x; }
  static MEGACPP_COLLECTIVE_CODE Sum add(Sum a, Sum b) { return a < b ? b : a; }  // has no sum: never asked for
};

// Bytes from the addresses of a piece.
struct Place {
  int64_t source;
  int64_t target;
};

template <typename Count>
MEGACPP_COLLECTIVE_CODE Place place_in_runs(const CollectivePiece& piece, Count unit) {
  const Count run = unit / static_cast<Count>(piece.units_of_run);
  const Count in_run = unit - run * static_cast<Count>(piece.units_of_run);
  const Count outer = run / static_cast<Count>(piece.last), last = run - outer * static_cast<Count>(piece.last);
  const Count first = outer / static_cast<Count>(piece.middle),
              middle = outer - first * static_cast<Count>(piece.middle);
  const int64_t inside = static_cast<int64_t>(in_run) * piece.unit_bytes;
  const int64_t i = static_cast<int64_t>(first), j = static_cast<int64_t>(middle), k = static_cast<int64_t>(last);
  return {piece.source_first + i * piece.source_stride[0] + j * piece.source_stride[1] + k * piece.source_stride[2] +
              inside,
          piece.target_first + i * piece.target_stride[0] + j * piece.target_stride[1] + k * piece.target_stride[2] +
              inside};
}

MEGACPP_COLLECTIVE_CODE Place place_of(const CollectivePiece& piece, int64_t unit) {
  if (piece.units == piece.units_of_run) {
    const int64_t inside = unit * piece.unit_bytes;
    return {piece.source_first + inside, piece.target_first + inside};
  }
  if (piece.units <= 0xffffffffLL) return place_in_runs<uint32_t>(piece, static_cast<uint32_t>(unit));
  return place_in_runs<uint64_t>(piece, static_cast<uint64_t>(unit));
}

// The units of one thread: `first`, and every kCollectiveThreads-th after it, as far as the piece and the block go.
struct Share {
  const CollectiveParams& params;
  const CollectivePiece& piece;
  int64_t first;

  MEGACPP_COLLECTIVE_CODE int64_t unit(uint32_t i) const {
    return first + static_cast<int64_t>(i) * kCollectiveThreads;
  }
  MEGACPP_COLLECTIVE_CODE uint64_t source(uint32_t s) const { return params.addresses[piece.sources + s]; }
  MEGACPP_COLLECTIVE_CODE uint64_t target(uint32_t t) const { return params.addresses[piece.targets + t]; }
};

// Several loads are on their way before the first is stored. What is already in place is left alone, as in-place use
// has it.
template <typename T>
MEGACPP_COLLECTIVE_CODE void copy_units(const Share& share) {
  constexpr uint32_t kTogether = 4;
  static_assert(kUnitsPerThread % kTogether == 0);
  for (uint32_t i = 0; i < kUnitsPerThread; i += kTogether) {
    T values[kTogether] = {};
    Place places[kTogether] = {};
    for (uint32_t k = 0; k < kTogether; ++k) {
      if (share.unit(i + k) >= share.piece.units) continue;
      places[k] = place_of(share.piece, share.unit(i + k));
      values[k] = load<T>(share.source(0) + static_cast<uint64_t>(places[k].source));
    }
    for (uint32_t k = 0; k < kTogether; ++k) {
      if (share.unit(i + k) >= share.piece.units) continue;
      const uint64_t source = share.source(0) + static_cast<uint64_t>(places[k].source);
      for (uint32_t t = 0; t < share.piece.target_count; ++t) {
        const uint64_t target = share.target(t) + static_cast<uint64_t>(places[k].target);
        if (target != source) store<T>(target, values[k]);
      }
    }
  }
}

// A unit is read on all sources before it is written anywhere: a target may be a source at the same place.
template <typename Type, typename Packed, bool kIsSum>
MEGACPP_COLLECTIVE_CODE void combine_unit(const Share& share, const Place& at) {
  constexpr uint32_t kLanes = sizeof(Packed) / sizeof(typename Type::Stored);
  struct Lanes {
    typename Type::Stored of[kLanes];
  };
  const auto operand = [&](uint32_t s) {
    return bits_as<Lanes>(load<Packed>(share.source(s) + static_cast<uint64_t>(at.source)));
  };
  typename Type::Sum total[kLanes];
  const Lanes first = operand(0);
  for (uint32_t lane = 0; lane < kLanes; ++lane) total[lane] = Type::load(first.of[lane]);
  for (uint32_t s = 1; s < share.piece.source_count; ++s) {
    const Lanes lanes = operand(s);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const typename Type::Sum x = Type::load(lanes.of[lane]);
      if (kIsSum)
        total[lane] = Type::add(total[lane], x);
      else
        total[lane] = total[lane] < x ? x : total[lane];
    }
  }
  Lanes result;
  for (uint32_t lane = 0; lane < kLanes; ++lane) result.of[lane] = Type::store(total[lane]);
  const Packed packed = bits_as<Packed>(result);
  for (uint32_t t = 0; t < share.piece.target_count; ++t)
    store<Packed>(share.target(t) + static_cast<uint64_t>(at.target), packed);
}

template <typename Type, typename Packed>
MEGACPP_COLLECTIVE_CODE void combine_units(const Share& share) {
  for (uint32_t i = 0; i < kUnitsPerThread && share.unit(i) < share.piece.units; ++i) {
    const Place at = place_of(share.piece, share.unit(i));
    share.params.combine == Combine::sum ? combine_unit<Type, Packed, true>(share, at)
                                         : combine_unit<Type, Packed, false>(share, at);
  }
}

template <typename Type>
MEGACPP_COLLECTIVE_CODE void combine_typed(const Share& share) {
  if (share.piece.unit_bytes == sizeof(Unit16)) return combine_units<Type, Unit16>(share);
  combine_units<Type, typename Type::Stored>(share);
}

MEGACPP_COLLECTIVE_CODE Share share_of(const CollectiveParams& params, uint32_t block, uint32_t thread) {
  uint32_t p = 0;
  while (p + 1 < params.piece_count && params.pieces[p + 1].first_block <= block) ++p;
  const CollectivePiece& piece = params.pieces[p];
  return {params, piece, static_cast<int64_t>(block - piece.first_block) * kUnitsPerBlock + thread};
}

/// All that thread `thread` of block `block` does where pieces are copied.
MEGACPP_COLLECTIVE_CODE void copy_as_thread(const CollectiveParams& params, uint32_t block, uint32_t thread) {
  const Share share = share_of(params, block, thread);
  switch (share.piece.unit_bytes) {
    case 16:
      return copy_units<Unit16>(share);
    case 8:
      return copy_units<uint64_t>(share);
    case 4:
      return copy_units<uint32_t>(share);
    case 2:
      return copy_units<uint16_t>(share);
    default:
      return copy_units<uint8_t>(share);
  }
}

/// The same where they are combined.
MEGACPP_COLLECTIVE_CODE void combine_as_thread(const CollectiveParams& params, uint32_t block, uint32_t thread) {
  const Share share = share_of(params, block, thread);
  switch (params.dtype) {
    case CollectiveDType::f32:
      return combine_typed<F32>(share);
    case CollectiveDType::bf16:
      return combine_typed<Bf16>(share);
    case CollectiveDType::i32:
      return combine_typed<I32>(share);
    case CollectiveDType::pred:
      return combine_typed<Pred>(share);
  }
}

}  // namespace megacpp::runtime::cuda::collective
