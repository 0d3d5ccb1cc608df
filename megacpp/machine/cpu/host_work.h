// SPDX-License-Identifier: Apache-2.0
// What a virtual chip of the CPU backend does by itself around its calls: on the thread that calls.
#pragma once

#include "megacpp/machine/runtime/linked_program.h"

namespace megacpp::runtime::cpu {

class HostWork final : public LocalWork {
 public:
  collectives::Stream stream() const override { return collectives::kHostThread; }
  std::function<void()> slice(const Slice& slice) override;
  std::function<void()> write(std::byte* to, int32_t value) override;
  std::function<void()> add(const Addition& addition) override;
};

}  // namespace megacpp::runtime::cpu
