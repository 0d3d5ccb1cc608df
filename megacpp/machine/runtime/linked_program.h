// SPDX-License-Identifier: Apache-2.0
// What ties one chip's program to the others: where the chip stands in the mesh and its end of the transport. Turns
// nodes between chips into calls whose addresses and groups are resolved before step 0, for every backend that runs
// programs node by node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/collectives/communicator.h"
#include "megacpp/machine/runtime/chip_device.h"

namespace megacpp::runtime {

struct Link {
  const ir::Mesh& mesh;
  int64_t chip;
  collectives::Communicator& communicator;
};

/// What a chip does by itself around its calls, on its own device. Each is ready to run, in the order of the calls
/// around it.
class LocalWork {
 public:
  virtual ~LocalWork() = default;

  /// Where calls are ordered.
  virtual collectives::Stream stream() const = 0;

  /// `rows` times: `kept` bytes of a row of `row_bytes`, then zeros up to `result_bytes`.
  struct Slice {
    const std::byte* from;  // the first byte that is kept
    std::byte* to;
    int64_t rows;
    int64_t row_bytes;
    int64_t kept_bytes;
    int64_t result_bytes;
  };
  virtual std::function<void()> slice(const Slice& slice) = 0;
  virtual std::function<void()> write(std::byte* to, int32_t value) = 0;
  /// sum[i] += own[i]
  struct Addition {
    float* sum;
    const float* own;
    int64_t count;
  };
  virtual std::function<void()> add(const Addition& addition) = 0;
};

/// The buffers of a node; they must stay where they are.
struct NodeBuffers {
  std::span<std::byte* const> operands = {};
  std::span<std::byte* const> results = {};
  std::byte* workspace = nullptr;  // as the transport wants it
};

/// A program whose nodes between chips are prepared in their order: a done finds what was started for it.
class LinkedProgram {
 public:
  /// All must outlive what is prepared.
  LinkedProgram(const ir::Graph& graph, const Link& link, LocalWork& local)
      : graph_(graph), link_(link), local_(local) {}

  /// The node as something to run; what it uses of its workspace is the transport's matter.
  DeviceCall prepare(const ir::Node& node, const NodeBuffers& buffers);

 private:
  std::shared_ptr<collectives::Call> bind(collectives::Call call, const ir::Node& node, const NodeBuffers& buffers);
  DeviceCall prepare_call(const ir::Node& node, const NodeBuffers& buffers);
  DeviceCall prepare_send(std::shared_ptr<collectives::Call> call);
  DeviceCall prepare_exchange_sum(const ir::Node& node, const NodeBuffers& buffers);
  DeviceCall prepare_done(const ir::Node& node) const;

  const ir::Graph& graph_;
  const Link& link_;
  LocalWork& local_;
  /// By first result of a start; shared by what starts and what finishes the call.
  std::map<uint32_t, std::shared_ptr<collectives::Ticket>> tickets_;
};

}  // namespace megacpp::runtime
