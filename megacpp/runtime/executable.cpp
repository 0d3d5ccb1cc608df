// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/executable.h"

#include <cstring>

#include "megacpp/base/error.h"

namespace megacpp::runtime {

float Executable::scalar_output(size_t program, const std::string& name, int64_t chip) const {
  const std::span<const std::byte> bytes = output(program, name, chip);
  MEGACPP_CHECK(bytes.size() == sizeof(float)) << "output '" << name << "' is not one f32";
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace megacpp::runtime
