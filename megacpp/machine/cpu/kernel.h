// SPDX-License-Identifier: Apache-2.0
// A CPU kernel: one op on one chip's threads. To add one: machine/cpu/kernels/<op>.cpp with a Kernel, one line in
// kernel_list.inc; tests/conformance compares it with the op's reference on every sample.
// Kernels see dense row-major buffers. They never allocate while running: scratch comes from the workspace that
// prepare() asked for. Kernels are written for f32 and i32/pred; narrow storage is handled around them (see storage.h)
// unless `takes_any_storage` is set.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cpu {

struct KernelArgs {
  std::span<std::byte* const> operands;
  std::span<std::byte* const> results;
  std::byte* workspace;
  base::ThreadPool& pool;

  template <typename T = float>
  const T* in(size_t i) const {
    return reinterpret_cast<const T*>(operands[i]);
  }
  template <typename T = float>
  T* out(size_t i) const {
    return reinterpret_cast<T*>(results[i]);
  }
  template <typename T = float>
  T* scratch(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(workspace + byte_offset);
  }
};

/// Ready to run: shapes and attributes are already read. The view given to prepare() does not outlive it: copy what you
/// need.
struct Prepared {
  std::function<void(const KernelArgs&)> run;
  int64_t workspace_bytes = 0;
};

struct Kernel {
  std::string_view op;
  std::function<Prepared(const ops::NodeView&, int threads)> prepare;
  /// Empty: runs every legal node.
  std::function<base::Decision(const ops::NodeView&)> supports = {};
  bool takes_any_storage = false;
};

const std::vector<Kernel>& all_kernels();
const Kernel* find_kernel(std::string_view op);

}  // namespace megacpp::runtime::cpu
