// SPDX-License-Identifier: Apache-2.0
// XLA's optimized program read back: the part of HloModuleProto (xla/service/hlo.proto, xla/xla_data.proto) that tells
// what runs how often and which chips meet in it. Read with protozero field by field, so no generated code is needed
// and fields that later versions add are passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/xla/pjrt/compiled_program.h"

namespace megacpp::runtime::pjrt {

/// An array, or a tuple of shapes. Elements of fewer than 8 bits are packed.
struct HloShape {
  int64_t element_bits = 0;  // 0: a tuple, or a token, which takes no memory
  std::vector<int64_t> dims = {};
  std::vector<HloShape> parts = {};

  int64_t bytes() const;  // of all parts, without the padding of a layout
};

struct HloInstruction {
  std::string name;
  std::string opcode;  // "all-reduce-start"
  HloShape shape;
  std::string op_name;          // what the program's text says it is for
  std::vector<int64_t> called;  // ids of computations; a `while` calls its body, then its condition
  /// Numbers of the chips that meet, in any of the forms a program writes them; empty: all chips in one group.
  std::vector<std::vector<int64_t>> groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;  // source and target of a permute
  std::optional<int64_t> trip_count;               // of a `while`, where the compiler knows it
  std::optional<int64_t> constant;                 // of a scalar that is one, if it is an integer
  bool is_less_than = false;                       // a comparison of that kind
  double flops = 0;                                // of a dot or a convolution, run once; 0: it is neither
};

struct HloComputation {
  int64_t id = 0;
  std::string name;
  std::vector<HloInstruction> instructions;
};

struct HloProgram {
  std::string name;
  int64_t entry = 0;                         // id of the computation that runs first
  std::vector<HloComputation> computations;  // what is called stands before what calls it
};

/// E1505 for a format other than "hlo" and "hlo_with_config", E3201 for damaged bytes.
HloProgram read_hlo_program(const OptimizedProgram& optimized);

}  // namespace megacpp::runtime::pjrt
