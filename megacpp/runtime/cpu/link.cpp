// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/link.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "megacpp/base/error.h"
#include "megacpp/ops/collective_start.h"
#include "megacpp/schedule/overlap_collectives.h"

namespace megacpp::runtime::cpu {
namespace {

using collectives::Call;
using collectives::Kind;

static_assert(schedule::kMaxStarted <= collectives::kMaxInFlight);

struct KindOfOp {
  std::string_view op;
  Kind kind;
};
constexpr KindOfOp kKinds[] = {{"all_gather", Kind::all_gather},
                               {"reduce_scatter", Kind::reduce_scatter},
                               {"all_reduce", Kind::all_reduce},
                               {"all_to_all", Kind::all_to_all},
                               {"permute", Kind::permute},
                               {"send", Kind::send},
                               {"recv", Kind::recv}};

ir::Axes axes_of(const ir::Node& node, const Link& link) { return ir::parse_axes(node.attrs.text("axes"), link.mesh); }

// The chip `offset` places further along the axis, around its end.
int64_t neighbour(const ir::Node& node, const Link& link) {
  const std::vector<int64_t> group = link.mesh.group(link.chip, axes_of(node, link));
  const int64_t n = static_cast<int64_t>(group.size());
  const int64_t own = link.mesh.index_in_group(link.chip, axes_of(node, link));
  return group[static_cast<size_t>(((own + node.attrs.integer("peer")) % n + n) % n)];
}

// Tensors of several dtypes that only move: each number a row of bytes.
void describe_as_bytes(Call& call, const ir::Graph& graph, const std::vector<ir::ValueId>& moved) {
  MEGACPP_CHECK(call.kind == Kind::all_to_all || call.kind == Kind::permute || call.kind == Kind::all_gather)
      << call.where << " reduces tensors of several dtypes";
  call.dtype = ir::DType::pred;
  for (size_t i = 0; i < moved.size(); ++i) call.parts[i].shape.push_back(ir::dtype_bytes(graph.type(moved[i]).dtype));
}

void describe_parts(Call& call, const ir::Graph& graph, const ir::Node& node, std::span<std::byte* const> operands,
                    std::span<std::byte* const> results) {
  const size_t count = std::max(operands.size(), results.size());
  for (size_t i = 0; i < count; ++i) {
    collectives::Part part;
    if (i < operands.size()) part.in = operands[i];
    if (i < results.size()) part.out = results[i];
    part.shape = graph.type(operands.empty() ? node.results[i] : node.operands[i]).shape;
    if (node.attrs.has("dims")) part.dim = node.attrs.list("dims")[i];
    if (call.kind == Kind::all_to_all) {
      part.dim = node.attrs.integer("split");
      part.concat_dim = node.attrs.integer("concat");
    }
    call.parts.push_back(std::move(part));
  }
  const std::vector<ir::ValueId>& moved = operands.empty() ? node.results : node.operands;
  call.dtype = graph.type(moved[0]).dtype;
  const bool alike =
      std::all_of(moved.begin(), moved.end(), [&](ir::ValueId value) { return graph.type(value).dtype == call.dtype; });
  if (!alike) describe_as_bytes(call, graph, moved);
}

std::shared_ptr<Call> describe(const ir::Graph& graph, const ir::Node& node, Kind kind,
                               std::span<std::byte* const> operands, std::span<std::byte* const> results,
                               const Link& link) {
  auto call = std::make_shared<Call>();  // shared by the functions that run and drain it
  call->kind = kind;
  call->where = graph.name() + ": " + std::string(ops::started_op(node)) + " @" + node.scope;
  if (collectives::is_point_to_point(kind)) {
    call->peer = neighbour(node, link);
    call->tag = node.attrs.integer("tag");
  } else {
    call->group = &link.communicator.create_group(link.mesh.group(link.chip, axes_of(node, link)));
  }
  if (kind == Kind::permute) call->shift = node.attrs.integer("shift");
  if (node.attrs.text("kind", "sum") == "max") call->reduction = collectives::Reduction::max;
  describe_parts(*call, graph, node, operands, results);
  return call;
}

// A send is only posted: the receiver fetches it when it comes to it, and until then the operand stays as it is.
Exchange prepare_send(std::shared_ptr<Call> call, collectives::Communicator& communicator) {
  communicator.reserve_messages(1);
  auto ticket = std::make_shared<collectives::Ticket>();
  const auto drain = [ticket, &communicator] {
    if (ticket->number >= 0) communicator.finish(*ticket);
    *ticket = {};
  };
  return {.run =
              [call, ticket, drain, &communicator] {
                drain();
                *ticket = communicator.start(*call);
              },
          .drain = drain};
}

// Both chips get the same bits: a sum of two does not depend on their order.
Exchange prepare_exchange_sum(const ir::Graph& graph, const ir::Node& node, std::span<std::byte* const> operands,
                              std::span<std::byte* const> results, const Link& link) {
  const std::shared_ptr<Call> send = describe(graph, node, Kind::send, operands, {}, link);
  const std::shared_ptr<Call> recv = describe(graph, node, Kind::recv, {}, results, link);
  const float* const own = reinterpret_cast<const float*>(operands[0]);
  float* const sum = reinterpret_cast<float*>(results[0]);
  MEGACPP_CHECK(graph.type(node.operands[0]).dtype == ir::DType::f32) << "exchange_sum of f32 only";
  const int64_t count = graph.type(node.operands[0]).elements();
  return {.run = [=, &communicator = link.communicator] {
    const collectives::Ticket ticket = communicator.start(*send);
    communicator.run(*recv);
    for (int64_t i = 0; i < count; ++i) sum[i] += own[i];
    communicator.finish(ticket);
  }};
}

// In the group: the place attribute `shift` before this chip's, around its end.
int64_t shifted_index(const ir::Node& node, const Link& link) {
  const int64_t n = node.attrs.integer("parts");
  const int64_t own = link.mesh.index_in_group(link.chip, axes_of(node, link));
  return ((own - node.attrs.integer("shift", 0)) % n + n) % n;
}

// This chip's piece of a tensor that every chip holds, or that of the member `shift` places before; zeros beyond the
// end.
std::function<void()> prepare_slice(const ir::Graph& graph, const ir::Node& node, const std::byte* from, std::byte* to,
                                    const Link& link) {
  const ir::TensorType &whole = graph.type(node.operands[0]), &piece = graph.type(node.results[0]);
  const size_t dim = static_cast<size_t>(node.attrs.integer("dim"));
  int64_t outer = 1, inner = dtype_bytes(whole.dtype);
  for (size_t d = 0; d < dim; ++d) outer *= whole.shape[d];
  for (size_t d = dim + 1; d < whole.shape.size(); ++d) inner *= whole.shape[d];
  const int64_t rows = whole.shape[dim], kept = piece.shape[dim];
  const int64_t first = std::min(rows, shifted_index(node, link) * kept);
  const int64_t count = std::min(kept, rows - first);
  return [=] {
    for (int64_t o = 0; o < outer; ++o) {
      std::byte* const out = to + o * kept * inner;
      std::memcpy(out, from + (o * rows + first) * inner, static_cast<size_t>(count * inner));
      std::memset(out + count * inner, 0, static_cast<size_t>((kept - count) * inner));
    }
  };
}

}  // namespace

Exchange LinkedProgram::prepare(const ir::Node& node, std::span<std::byte* const> operands,
                                std::span<std::byte* const> results) {
  collectives::Communicator& communicator = link_.communicator;
  if (node.op == "shard_slice") return {.run = prepare_slice(graph_, node, operands[0], results[0], link_)};
  if (node.op == "shard_index") {
    const int32_t index = static_cast<int32_t>(link_.mesh.index_in_group(link_.chip, axes_of(node, link_)));
    return {.run = [index, out = results[0]] { std::memcpy(out, &index, sizeof index); }};
  }
  if (node.op == "exchange_sum") return prepare_exchange_sum(graph_, node, operands, results, link_);
  if (node.op == ops::kDoneOp) {
    const auto ticket = tickets_.find(node.operands[0].index);
    MEGACPP_CHECK(ticket != tickets_.end()) << "nothing was started for " << node.op << " @" << node.scope;
    return {.run = [ticket = ticket->second, &communicator] { communicator.finish(*ticket); }};
  }
  const std::string_view op = ops::started_op(node);
  const auto at =
      std::find_if(std::begin(kKinds), std::end(kKinds), [op](const KindOfOp& entry) { return entry.op == op; });
  MEGACPP_CHECK(at != std::end(kKinds)) << "no transport runs " << op << " @" << node.scope;
  const std::shared_ptr<Call> call = describe(graph_, node, at->kind, operands, results, link_);
  if (at->kind == Kind::send) return prepare_send(call, communicator);
  if (node.op != ops::kStartOp) return {.run = [call, &communicator] { communicator.run(*call); }};
  const auto ticket = std::make_shared<collectives::Ticket>();
  tickets_[node.results[0].index] = ticket;
  return {.run = [call, ticket, &communicator] { *ticket = communicator.start(*call); }};
}

}  // namespace megacpp::runtime::cpu
