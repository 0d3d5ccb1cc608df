// SPDX-License-Identifier: Apache-2.0
// A program as the compiler left it, loaded on devices or not: what it needs, what it costs, what became of it.
// Bytes and counts are those of one device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/machine/xla/pjrt/handle.h"

namespace megacpp::runtime::pjrt {

/// The compiler's own account of memory, in bytes.
struct CompiledMemory {
  int64_t code = 0;
  int64_t argument = 0;
  int64_t output = 0;
  int64_t alias = 0;  // of output, aliased with arguments
  int64_t temp = 0;   // as they are placed, with the gaps between them
  int64_t peak = 0;   // alive at once, without the gaps between temporaries; 0 from plugins that do not say
  int64_t host_code = 0;
  int64_t host_argument = 0;
  int64_t host_output = 0;
  int64_t host_alias = 0;
  int64_t host_temp = 0;

  /// What a chip must hold while the program runs, its code included: temporaries are reserved in one piece.
  int64_t needed() const { return argument + output - alias + temp + code; }
};

/// The program after all optimizations, in the plugin's format: "hlo_with_config" and "hlo" are serialized protobufs.
struct OptimizedProgram {
  std::string format;
  std::string code;
};

class CompiledProgram {
 public:
  explicit CompiledProgram(Handle executable) : executable_(std::move(executable)) {}

  std::string name() const;
  int64_t num_outputs() const;
  /// E1505 when an output has an element type that no tensor of ours has.
  std::vector<ir::TensorType> output_types() const;
  /// Nothing where the plugin keeps no account.
  std::optional<CompiledMemory> memory() const;
  /// Names as XLA gives them: "flops", "bytes accessed"; empty where the plugin counts nothing.
  std::map<std::string, double> cost() const;
  OptimizedProgram optimized() const;
  /// Equal for equal programs; empty where the plugin gives none.
  std::string fingerprint() const;
  /// Bytes for load_serialized(), by the same plugin version on the same kind of device.
  std::string serialize() const;

 private:
  Handle executable_;
};

}  // namespace megacpp::runtime::pjrt
