// SPDX-License-Identifier: Apache-2.0
// A loaded run's tensors seen whole: reads and writes go to every chip's part. Weights are drawn straight into the
// parts: no copy of the model stands anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/compile/compile.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::train {

class RunState {
 public:
  /// Both must outlive the object.
  RunState(const compile::Compiled& compiled, runtime::Executable& run) : compiled_(compiled), run_(run) {}

  bool has(const std::string& name) const { return compiled_.inputs.contains(name); }
  /// The whole tensor's type.
  const ir::TensorType& type(const std::string& name) const { return compiled_.inputs.at(name).whole; }

  void initialise_weights(uint64_t seed);

  /// Whole tensors, row-major. E1203 when the size is not the state's.
  template <typename T>
  void write(const std::string& name, std::span<const T> whole) {
    write_bytes(name, std::as_bytes(whole));
  }
  template <typename T>
  std::vector<T> read(const std::string& name) {
    return joined<T>(compiled_.inputs.at(name), [&](int64_t chip) { return run_.state(name, chip); });
  }
  template <typename T>
  std::vector<T> read_output(size_t program, const std::string& name) const {
    return joined<T>(compiled_.outputs.at(program).at(name),
                     [&](int64_t chip) { return run_.output(program, name, chip); });
  }

 private:
  template <typename T, typename Bytes>
  std::vector<T> joined(const partition::Placement& placement, const Bytes& bytes_of) const {
    std::vector<T> whole(static_cast<size_t>(placement.whole.elements()));
    for (int64_t chip = 0; chip < run_.chips(); ++chip)
      copy_out(placement, chip, bytes_of(chip), std::as_writable_bytes(std::span(whole)));
    return whole;
  }

  void write_bytes(const std::string& name, std::span<const std::byte> whole);
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
