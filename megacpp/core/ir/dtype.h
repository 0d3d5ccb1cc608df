// SPDX-License-Identifier: Apache-2.0
// Element types of tensors. One record says all that is known of a type; a new question about types is a new field of
// it, never a switch elsewhere. Types are storage: kernels widen numbers to what the record sums and multiplies them
// in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::ir {

/// The place of a type in the table; those of dtype_list.inc have names here.
enum class DType : uint8_t {
#define MEGACPP_DTYPE(name) name,
#include "megacpp/core/ir/dtype_list.inc"
#undef MEGACPP_DTYPE
};

enum class ElementKind : uint8_t { real, integer, flag };

struct DTypeRecord {
  std::string_view name;                     // in graphs and recipes, and of its C++ type in device code
  int bits = 0;                              // of an element in memory
  ElementKind kind = ElementKind::real;      //
  double least = 0;                          // finite number
  double largest = 0;                        // finite number
  double smallest = 0;                       // number above zero of whole precision
  double epsilon = 0;                        // from one to the number above it
  bool has_infinity = false;                 // else what is too large becomes no number
  DType sums = DType::f32;                   // what sums and maxima of it are made in
  std::optional<DType> products = {};        // what its products are added up in; nothing: it enters none
  std::string_view rate = {};                // of products, as chip files call it
  bool is_precision = false;                 // train.precision may be it
  std::string_view hlo = {};                 // in StableHLO: "i1"
  std::string_view xla = {};                 // in programs that XLA prints, and in tilings: "pred"
  std::string_view numpy = {};               // in configurations of published models: "bool"
  std::string_view safetensors = {};         // in checkpoints; empty: no state is of it
  std::optional<int> pjrt = {};              // PJRT_Buffer_Type; nothing: XLA does not run here with it
  std::optional<int> cuda = {};              // cudaDataType; nothing: libraries of NVIDIA's do not multiply it
  std::optional<uint32_t> device_code = {};  // its number in device code that is compiled ahead; nothing: none has it
  /// `count` elements at any address. From f32 numbers are rounded to nearest even, and integers cut off.
  void (*to_f32)(const std::byte* from, float* to, int64_t count) = nullptr;
  void (*from_f32)(const float* from, std::byte* to, int64_t count) = nullptr;

  int64_t bytes() const { return bits / 8; }
  bool is_real() const { return kind == ElementKind::real; }
};

/// All, in the order of DType.
std::span<const DTypeRecord> all_dtypes();
const DTypeRecord& record(DType dtype);

inline std::string_view dtype_name(DType dtype) { return record(dtype).name; }
inline int64_t dtype_bytes(DType dtype) { return record(dtype).bytes(); }
inline bool is_float(DType dtype) { return record(dtype).is_real(); }
/// Numbers that are widened to be computed with.
inline bool is_narrow(DType dtype) { return is_float(dtype) && record(dtype).sums != dtype; }

std::optional<DType> parse_dtype(std::string_view name);
/// A type as a setting or a member of a record.
inline std::string_view text_of(DType dtype) { return dtype_name(dtype); }
inline bool read_text(std::string_view text, DType& dtype) {
  const std::optional<DType> named = parse_dtype(text);
  dtype = named.value_or(dtype);
  return named.has_value();
}
/// The name has been checked before.
DType dtype_named(std::string_view name);
/// Names of those that train.precision may be.
std::vector<std::string> precision_names();

/// The number as the type stores it.
double rounded(DType dtype, double value);
/// Its bits, and back. Integers are in two's complement.
uint64_t bits_of(DType dtype, double value);
double number_of(DType dtype, uint64_t bits);

}  // namespace megacpp::ir
