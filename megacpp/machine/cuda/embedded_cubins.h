// SPDX-License-Identifier: Apache-2.0
// Device code that was compiled with this program (cubin_list.inc). A build without nvcc has the names and no code: it
// plans for GPUs like any other, and says what it lacks where it would run on one.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace megacpp::runtime::cuda {

struct EmbeddedCubin {
  std::string_view name;  // of its file: "rms_norm"
  std::span<const std::byte> code;
};

/// In the order of cubin_list.inc; code is empty in a build without nvcc. Written by cmake/EmbedCubins.cmake.
const std::vector<EmbeddedCubin>& embedded_cubins();

/// Empty where this build has none of that name.
std::span<const std::byte> embedded_cubin(std::string_view name);

/// Names without code.
std::vector<std::string_view> missing_cubins();

}  // namespace megacpp::runtime::cuda
