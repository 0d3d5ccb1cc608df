// SPDX-License-Identifier: Apache-2.0
// A loaded run's tensors seen whole: reads and writes go to the part of every local chip. Weights are drawn part by
// part: nowhere is there a copy of the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/compile/compile.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::train {

class RunState {
 public:
  /// Both must outlive the object.
  RunState(const compile::Compiled& compiled, runtime::Executable& run) : compiled_(compiled), run_(run) {}

  /// Whether some program reads this input of a micro-batch ("batch.segments").
  bool reads(const std::string& batch_input) const;

  /// Holds one chip's part of one parameter at a time, and nothing afterwards.
  void initialise_weights(uint64_t seed);

  /// Whole tensors, row-major, into the parts of the local chips that have them; some chip of the mesh must. E1203 when
  /// the size is not the state's.
  template <typename T>
  void write(const std::string& name, std::span<const T> whole) {
    MEGACPP_CHECK(is_anywhere(name)) << "no chip has '" << name << "'";
    for (const int64_t chip : run_.local_chips()) write_bytes(chip, name, std::as_bytes(whole));
  }
  /// Into one local chip's part, if it has it.
  template <typename T>
  void write_part(int64_t chip, const std::string& name, std::span<const T> whole) {
    write_bytes(chip, name, std::as_bytes(whole));
  }
  /// Local chips must have all of it.
  template <typename T>
  std::vector<T> read(const std::string& name) {
    std::vector<T> whole;
    for (const int64_t chip : run_.local_chips()) {
      const partition::Placement* placement = find(compiled_.programs_of(chip).inputs, name);
      if (placement == nullptr) continue;
      require_all_local(name, *placement);
      whole.resize(static_cast<size_t>(placement->whole.elements()));
      read_part(chip, name, *placement);
      copy_out(*placement, chip, scratch(), std::as_writable_bytes(std::span(whole)));
    }
    MEGACPP_CHECK(!whole.empty()) << "no local chip has '" << name << "'";
    return whole;
  }
  /// Puts a chip's part of an f32 output where it belongs in the whole tensor; for use right after the program ran,
  /// since others run in the same memory.
  void collect(int64_t chip, size_t program, const std::string& output, std::vector<float>& whole) const;

 private:
  static const partition::Placement* find(const partition::Placements& placements, const std::string& name);
  /// A chip's part on its way; each thread has one, so that chips in their threads allocate nothing step after step.
  static std::vector<std::byte>& scratch();
  size_t part_bytes(const partition::Placement& placement) const;
  void read_part(int64_t chip, const std::string& name, const partition::Placement& placement) const;
  /// Whether some chip of the mesh has it.
  bool is_anywhere(const std::string& name) const;
  void require_all_local(const std::string& name, const partition::Placement& placement) const;
  /// Where the chip has it.
  void write_bytes(int64_t chip, const std::string& name, std::span<const std::byte> whole);
  void copy_out(const partition::Placement& placement, int64_t chip, std::span<const std::byte> part,
                std::span<std::byte> whole) const;

  const compile::Compiled& compiled_;
  runtime::Executable& run_;
};

/// Puts the tokens of each sequence into the order the run stores them in, or back. rows: [any, sequence, width]
template <typename T>
std::vector<T> in_stored_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                               int64_t width = 1);
template <typename T>
std::vector<T> in_time_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                             int64_t width = 1);

}  // namespace megacpp::train
