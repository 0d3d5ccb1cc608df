// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/linked_program.h"

#include <algorithm>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/runtime/collective_call.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/overlap_collectives.h"

namespace megacpp::runtime {
namespace {

using collectives::Call;
using collectives::Communicator;
using collectives::Kind;

static_assert(schedule::kMaxStarted <= collectives::kMaxInFlight);

ir::Axes axes_of(const ir::Node& node, const Link& link) { return ir::parse_axes(node.attrs.text("axes"), link.mesh); }

// The chip `offset` places further along the axis, around its end.
int64_t neighbour(const ir::Node& node, const Link& link) {
  const std::vector<int64_t> group = link.mesh.group(link.chip, axes_of(node, link));
  const int64_t n = static_cast<int64_t>(group.size());
  const int64_t own = link.mesh.index_in_group(link.chip, axes_of(node, link));
  return group[static_cast<size_t>(((own + node.attrs.integer("peer")) % n + n) % n)];
}

// In the group: the place attribute `shift` before this chip's, around its end.
int64_t shifted_index(const ir::Node& node, const Link& link) {
  const int64_t n = node.attrs.integer("parts");
  const int64_t own = link.mesh.index_in_group(link.chip, axes_of(node, link));
  return ((own - node.attrs.integer("shift", 0)) % n + n) % n;
}

// This chip's piece of a tensor that every chip holds, or that of the member `shift` places before; zeros beyond the
// end.
LocalWork::Slice own_slice(const ir::Graph& graph, const ir::Node& node, const NodeBuffers& buffers, const Link& link) {
  const ir::TensorType &whole = graph.type(node.operands[0]), &piece = graph.type(node.results[0]);
  const size_t dim = static_cast<size_t>(node.attrs.integer("dim"));
  int64_t outer = 1, inner = dtype_bytes(whole.dtype);
  for (size_t d = 0; d < dim; ++d) outer *= whole.shape[d];
  for (size_t d = dim + 1; d < whole.shape.size(); ++d) inner *= whole.shape[d];
  const int64_t rows = whole.shape[dim], kept = piece.shape[dim];
  const int64_t first = std::min(rows, shifted_index(node, link) * kept);
  return {.from = buffers.operands[0] + first * inner,
          .to = buffers.results[0],
          .rows = outer,
          .row_bytes = rows * inner,
          .kept_bytes = std::min(kept, rows - first) * inner,
          .result_bytes = kept * inner};
}

}  // namespace

std::shared_ptr<Call> LinkedProgram::bind(Call call, const ir::Node& node, const NodeBuffers& buffers) {
  call.where = graph_.name() + ": " + std::string(ops::started_op(node)) + " @" + node.scope;
  if (collectives::is_point_to_point(call.kind))
    call.peer = neighbour(node, link_);
  else
    call.group = &link_.communicator.create_group(link_.mesh.group(link_.chip, axes_of(node, link_)));
  for (size_t i = 0; i < call.parts.size(); ++i) {
    if (i < buffers.operands.size()) call.parts[i].in = buffers.operands[i];
    if (i < buffers.results.size()) call.parts[i].out = buffers.results[i];
  }
  call.workspace = buffers.workspace;
  link_.communicator.announce(call);
  return std::make_shared<Call>(std::move(call));  // shared by the functions that run and drain it
}

// A send is only posted: the receiver fetches it when it comes to it, and until then the operand stays as it is.
DeviceCall LinkedProgram::prepare_send(std::shared_ptr<Call> call) {
  Communicator& communicator = link_.communicator;
  communicator.reserve_messages(1);
  auto ticket = std::make_shared<collectives::Ticket>();
  const collectives::Stream stream = local_.stream();
  const auto drain = [ticket, stream, &communicator] {
    if (ticket->number >= 0) communicator.finish(*ticket, stream);
    *ticket = {};
  };
  return {.run =
              [call, ticket, drain, stream, &communicator] {
                drain();
                *ticket = communicator.start(*call, stream);
              },
          .drain = drain};
}

// Both chips get the same bits: a sum of two does not depend on their order.
DeviceCall LinkedProgram::prepare_exchange_sum(const ir::Node& node, const NodeBuffers& buffers) {
  const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
  MEGACPP_CHECK(operands[0].dtype == ir::DType::f32) << "exchange_sum of f32 only";
  const std::vector<Call> calls = calls_of(node.op, {operands, results, node.attrs});
  const std::shared_ptr<Call> send = bind(calls.at(0), node, {.operands = buffers.operands});
  const std::shared_ptr<Call> recv = bind(calls.at(1), node, {.results = buffers.results});
  const std::function<void()> add = local_.add({.sum = reinterpret_cast<float*>(buffers.results[0]),
                                                .own = reinterpret_cast<const float*>(buffers.operands[0]),
                                                .count = operands[0].elements()});
  return {.run = [send, recv, add, stream = local_.stream(), &communicator = link_.communicator] {
    const collectives::Ticket ticket = communicator.start(*send, stream);
    communicator.run(*recv, stream);
    add();
    communicator.finish(ticket, stream);
  }};
}

DeviceCall LinkedProgram::prepare_done(const ir::Node& node) const {
  const auto ticket = tickets_.find(node.operands[0].index);
  MEGACPP_CHECK(ticket != tickets_.end()) << "nothing was started for " << node.op << " @" << node.scope;
  return {.run = [ticket = ticket->second, stream = local_.stream(), &communicator = link_.communicator] {
    communicator.finish(*ticket, stream);
  }};
}

DeviceCall LinkedProgram::prepare_call(const ir::Node& node, const NodeBuffers& buffers) {
  Communicator& communicator = link_.communicator;
  const collectives::Stream stream = local_.stream();
  const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
  const std::shared_ptr<Call> call = bind(calls_of(node.op, {operands, results, node.attrs}).at(0), node, buffers);
  if (call->kind == Kind::send) return prepare_send(call);
  if (node.op != ops::kStartOp) return {.run = [call, stream, &communicator] { communicator.run(*call, stream); }};
  const auto ticket = std::make_shared<collectives::Ticket>();
  tickets_[node.results[0].index] = ticket;
  return {.run = [call, ticket, stream, &communicator] { *ticket = communicator.start(*call, stream); }};
}

DeviceCall LinkedProgram::prepare(const ir::Node& node, const NodeBuffers& buffers) {
  if (node.op == "shard_slice") {
    const LocalWork::Slice slice = own_slice(graph_, node, buffers, link_);
    return {.run = local_.slice(slice)};
  }
  if (node.op == "shard_index") {
    const int64_t index = link_.mesh.index_in_group(link_.chip, axes_of(node, link_));
    return {.run = local_.write(buffers.results[0], static_cast<int32_t>(index))};
  }
  if (node.op == ops::kDoneOp) return prepare_done(node);
  if (ops::transfer_of(node)->kind == ops::Transfer::Kind::pair_sum) return prepare_exchange_sum(node, buffers);
  return prepare_call(node, buffers);
}

}  // namespace megacpp::runtime
