// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/host_work.h"

#include <cstring>

namespace megacpp::runtime::cpu {

std::function<void()> HostWork::slice(const Slice& slice) {
  return [slice] {
    for (int64_t row = 0; row < slice.rows; ++row) {
      std::byte* const out = slice.to + row * slice.result_bytes;
      std::memcpy(out, slice.from + row * slice.row_bytes, static_cast<size_t>(slice.kept_bytes));
      std::memset(out + slice.kept_bytes, 0, static_cast<size_t>(slice.result_bytes - slice.kept_bytes));
    }
  };
}

std::function<void()> HostWork::write(std::byte* to, int32_t value) {
  return [to, value] { std::memcpy(to, &value, sizeof value); };
}

std::function<void()> HostWork::add(const Addition& addition) {
  return [addition] {
    for (int64_t i = 0; i < addition.count; ++i) addition.sum[i] += addition.own[i];
  };
}

}  // namespace megacpp::runtime::cpu
