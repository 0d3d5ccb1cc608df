// SPDX-License-Identifier: Apache-2.0
// A device as its plugin describes it, present or only part of a topology to compile for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/xla/pjrt/named_value.h"

namespace megacpp::runtime::pjrt {

struct DeviceDescription {
  int id = 0;
  int process = 0;    // the host it belongs to
  std::string kind;   // "cpu", "TPU v6 lite", "NVIDIA H200"
  std::string label;  // short, for people
  std::vector<NamedValue> attributes;

  /// Place in the slice; empty where the plugin knows no places.
  std::vector<int64_t> coords() const;
  /// Bytes a program may use, where the plugin says so.
  std::optional<int64_t> memory_limit() const;
};

}  // namespace megacpp::runtime::pjrt
