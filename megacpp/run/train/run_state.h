// SPDX-License-Identifier: Apache-2.0
// A loaded run's tensors seen whole: reads and writes go to the part of every local chip. Weights are drawn part by
// part: nowhere is there a copy of the model.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::train {

class RunState {
 public:
  /// Both must outlive the object.
  RunState(const compile::Compiled& compiled, runtime::Executable& run);

  /// Whether some chip's step reads this batch input ("batch.segments").
  bool stages(const std::string& input) const;

  /// The sequences of a batch input that local chips read any token of, ascending.
  std::vector<int64_t> local_rows(const std::string& input) const;

  /// On all cores, where each device takes them from. Holds at most one chip's part of one parameter at a time, and
  /// nothing afterwards.
  void initialise_weights(uint64_t seed);
  /// The same for LoRA adapters alone, where the model comes from elsewhere.
  void initialise_adapters(uint64_t seed);

  /// Whole tensors, row-major, into the parts of the local chips that hold them. E1203 when no chip of the mesh does,
  /// and when the size is not the state's.
  template <typename T>
  void write(const std::string& name, std::span<const T> whole) {
    write_bytes(name, std::as_bytes(whole));
  }
  /// Local chips must hold all of it. E1203 when no chip of the mesh holds any.
  template <typename T>
  std::vector<T> read(const std::string& name) const {
    std::vector<T> whole(static_cast<size_t>(state_named(name).whole.elements()));
    read_bytes(name, std::as_writable_bytes(std::span(whole)));
    return whole;
  }
  /// A whole batch input of one micro-step, to the local chips whose step reads it; where none does, nothing is done.
  /// Part of every step: allocates nothing once the largest input was staged.
  template <typename T>
  void stage(const std::string& input, int64_t micro, std::span<const T> whole) {
    stage_bytes(input, micro, std::as_bytes(whole));
  }
  /// An f32 output as the last step left it, put together from the local chips, by the pipeline stages that make it.
  std::map<size_t, std::vector<float>> output(const std::string& name) const;
  /// The same added up over the micro-steps of the last step, of an output that one pipeline stage makes. Empty where
  /// local chips do not fetch all of it.
  std::vector<double> summed_output(const std::string& name) const;

 private:
  /// How one chip holds a tensor.
  struct ChipPart {
    const compile::StateTensor* tensor;
    std::vector<ir::LocalRun> runs;  // from the whole tensor to the chip's part
    size_t bytes;                    // of the part, padding included
  };

  /// A chip's part of a parameter as it is drawn.
  struct DrawnPart {
    const blocks::Parameter& parameter;
    uint64_t seed;
    const ChipPart& part;
  };

  static void draw(const DrawnPart& of, int64_t first, std::span<float> values);
  void initialise(uint64_t seed, bool (*is_chosen)(std::string_view parameter));
  const partition::Placement& placement_of_output(const std::string& name, int64_t chip) const;
  void require_all_local(const compile::StateTensor& tensor) const;
  const compile::StateTensor& state_named(const std::string& name) const;
  void write_bytes(const std::string& name, std::span<const std::byte> whole);
  void read_bytes(const std::string& name, std::span<std::byte> whole) const;
  void stage_bytes(const std::string& input, int64_t micro, std::span<const std::byte> whole);
  ChipPart part_of(const compile::StateTensor& tensor, int64_t chip) const;
  /// A chip's part of a whole tensor; the bytes are overwritten by the next call.
  std::span<const std::byte> copy_in(const ChipPart& part, std::span<const std::byte> whole);
  void copy_out(const partition::Placement& placement, int64_t chip, std::span<const std::byte> part,
                std::span<std::byte> whole) const;

  const compile::Compiled& compiled_;
  runtime::Executable& run_;
  std::set<std::string> inputs_;                         // that the step of some chip of the mesh reads
  std::vector<std::map<std::string, ChipPart>> staged_;  // by local chip, in their order, and input
  mutable std::vector<std::byte> scratch_;  // a chip's part on its way: steps allocate nothing once it is large enough
};

/// Puts the tokens of each sequence into the order the run stores them in. rows, stored: [any, sequence]
template <typename T>
void write_in_stored_order(std::span<const T> rows, const std::vector<int64_t>& time_order, int64_t sequence,
                           std::span<T> stored);
/// The same as a new vector, or back. rows: [any, sequence, width]
template <typename T>
std::vector<T> in_stored_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                               int64_t width = 1);
template <typename T>
std::vector<T> in_time_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                             int64_t width = 1);

}  // namespace megacpp::train
