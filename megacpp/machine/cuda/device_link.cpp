// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/device_link.h"

#include <array>

#include "megacpp/machine/cuda/device_communicator.h"
#include "megacpp/machine/cuda/exchange_steps.h"
#include "megacpp/machine/cuda/kernels/collective.h"
#include "megacpp/machine/cuda/movement_table.h"
#include "megacpp/machine/runtime/collective_call.h"

namespace megacpp::runtime::cuda {
namespace {

Address address_on_device(const void* data) { return reinterpret_cast<Address>(data); }

// Enqueued on the chip's stream.
class StreamWork final : public LocalWork {
 public:
  explicit StreamWork(const DeviceLinkOptions& options)
      : driver_(options.driver), kernel_(options.toolbox), stream_(options.stream) {}

  collectives::Stream stream() const override { return {.handle = stream_}; }
  std::function<void()> slice(const Slice& slice) override;
  std::function<void()> write(std::byte* to, int32_t value) override;
  std::function<void()> add(const Addition& addition) override;

 private:
  std::function<void()> launch(const TableWriter::Options& options, const TableWriter::Piece& piece);

  const Driver& driver_;
  CollectiveKernel kernel_;
  Stream* const stream_;
};

// One piece is one table, made once.
std::function<void()> StreamWork::launch(const TableWriter::Options& options, const TableWriter::Piece& piece) {
  auto made = std::make_shared<CollectiveParams>();  // too large for each copy of the function to have its own
  const EmitTable keep = [&made](const CollectiveParams& table) { *made = table; };
  TableWriter writer(options, keep);
  writer.add(piece);
  writer.finish();
  return [made, this] { kernel_.run(*made, stream_); };
}

// Zeros beyond the end of the whole are written first, all over the result: only the last chips have any.
std::function<void()> StreamWork::slice(const Slice& slice) {
  const std::array<Address, 1> from = {address_on_device(slice.from)}, to = {address_on_device(slice.to)};
  collectives::Runs runs = {.counts = {slice.rows, 1, 1}, .run_bytes = slice.kept_bytes, .source = {}, .target = {}};
  runs.source.strides[0] = slice.row_bytes;
  runs.target.strides[0] = slice.result_bytes;
  const std::function<void()> copy = launch({.combine = Combine::copy}, {.sources = from, .targets = to, .runs = runs});
  const size_t bytes = static_cast<size_t>(slice.rows * slice.result_bytes);
  if (slice.kept_bytes == slice.result_bytes || bytes == 0) return copy;
  return [copy, result = to[0], bytes, this] {
    driver_.memset_bytes_async(result, 0, bytes, stream_);
    copy();
  };
}

std::function<void()> StreamWork::write(std::byte* to, int32_t value) {
  return [result = address_on_device(to), word = static_cast<unsigned>(value), this] {
    driver_.memset_words_async(result, word, 1, stream_);
  };
}

std::function<void()> StreamWork::add(const Addition& addition) {
  const std::array<Address, 2> terms = {address_on_device(addition.sum), address_on_device(addition.own)};
  const std::array<Address, 1> sum = {terms[0]};
  const collectives::Runs runs = whole_run(addition.count * ir::dtype_bytes(ir::DType::f32));
  return launch({.combine = Combine::sum, .dtype = ir::DType::f32}, {.sources = terms, .targets = sum, .runs = runs});
}

class StreamLink final : public DeviceLink {
 public:
  explicit StreamLink(const DeviceLinkOptions& options)
      : communicator_(dynamic_cast<DeviceCommunicator&>(options.communicator)),
        stream_(options.stream),
        link_{options.mesh, options.chip, options.communicator},
        work_(options) {
    transport_.workspace_bytes = [this](const collectives::Call& call, int64_t members) {
      return communicator_.workspace_bytes(call, members);
    };
  }

  DeviceCall prepare(const ir::Graph& graph, const BoundNode& bound) override {
    if (programs_.empty() || programs_.back().graph != &graph)
      programs_.push_back({&graph, std::make_unique<LinkedProgram>(graph, link_, work_)});
    DeviceCall call = programs_.back().linked->prepare(bound.node, {bound.operands, bound.results, bound.workspace});
    const ops::Types operands = graph.operand_types(bound.node), results = graph.result_types(bound.node);
    call.workspace_bytes = workspace_bytes(transport_, bound.node.op, {operands, results, bound.node.attrs});
    return call;
  }

  void wait() override { communicator_.wait(stream_); }

 private:
  struct Program {
    const ir::Graph* graph;
    std::unique_ptr<LinkedProgram> linked;
  };

  DeviceCommunicator& communicator_;
  Stream* const stream_;
  const Link link_;
  StreamWork work_;
  collectives::Transport transport_;  // asked how much workspace its calls want
  std::vector<Program> programs_;     // the last is being prepared
};

}  // namespace

std::unique_ptr<DeviceLink> make_device_link(const DeviceLinkOptions& options) {
  return std::make_unique<StreamLink>(options);
}

// Virtual chips read each other's buffers.
int64_t device_link_workspace(std::string_view op, const ops::NodeView& view, int64_t chips,
                              const collectives::Transport& transport) {
  if (chips == 1 || transport.properties.name == collectives::inproc_transport().properties.name) return 0;
  collectives::Transport between_processes = transport;
  between_processes.workspace_bytes = exchange_workspace;
  return workspace_bytes(between_processes, op, view);
}

}  // namespace megacpp::runtime::cuda
