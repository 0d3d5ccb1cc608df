// SPDX-License-Identifier: Apache-2.0
// What a tensor takes in a chip's memory, padding included, and its layout there. The arguments of a TPU program are
// in the order of dimensions that pads least (measured from the compiler for v6e: every row of
// tests/golden/v6e_argument_bytes.jsonl); of what is between, the compiler chooses. Chips without tiles round to
// their alignment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/hardware/hw/chip.h"

namespace megacpp::hw {

struct ElementType {
  std::string name;  // as XLA writes it: "bf16"
  int bits;
};
/// By XLA's, NumPy's or our own name. E1604 with the nearest.
ElementType element_type(std::string_view name);

struct TensorLayout {
  int64_t bytes = 0;
  std::vector<int64_t> minor_to_major;
  std::string text;  // as XLA prints it: "bf16[16,1280,40]{1,2,0:T(8,128)(2,1)}"
};

/// As an argument of a program: the order that pads least, row-major where orders tie.
TensorLayout argument_layout(const Chip& chip, std::string_view dtype, std::span<const int64_t> shape);
int64_t argument_bytes(const Chip& chip, std::string_view dtype, std::span<const int64_t> shape);

/// Inside a program: in the order written where the last dimension fills a row of the tile, else as an argument. So the
/// peaks say that v6e's compiler reported (bench/v6e); the compiler chooses, and may choose otherwise.
int64_t value_bytes(const Chip& chip, std::string_view dtype, std::span<const int64_t> shape);

/// In a given order of dimensions, the minor one first. E1604 for what is no order of them.
TensorLayout forced_layout(const Chip& chip, std::string_view dtype, std::span<const int64_t> shape,
                           std::span<const int64_t> minor_to_major);

}  // namespace megacpp::hw
