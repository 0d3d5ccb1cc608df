// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/collective_call.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/collective_start.h"

namespace megacpp::runtime {
namespace {

using collectives::Call;
using collectives::Kind;

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

Kind kind_of(std::string_view op) {
  const auto at = std::ranges::find(kKinds, op, &KindOfOp::op);
  MEGACPP_CHECK(at != std::end(kKinds)) << "no transport runs " << op;
  return at->kind;
}

// Tensors of several dtypes that only move: each number becomes a row of bytes.
void describe_as_bytes(Call& call, const ops::Types& moved) {
  MEGACPP_CHECK(call.kind == Kind::all_to_all || call.kind == Kind::permute || call.kind == Kind::all_gather)
      << collectives::kind_name(call.kind) << " reduces tensors of several dtypes";
  call.dtype = ir::DType::pred;
  for (size_t i = 0; i < moved.size(); ++i) call.parts[i].shape.push_back(ir::dtype_bytes(moved[i].dtype));
}

// `moved`: the operands; the results of a receive.
Call describe(Kind kind, const ops::Types& moved, const ir::Attrs& attrs) {
  Call call{.kind = kind, .dtype = moved.at(0).dtype};
  if (kind == Kind::permute) call.shift = attrs.integer("shift");
  if (collectives::is_point_to_point(kind)) call.tag = attrs.integer("tag");
  if (attrs.text("kind", "sum") == "max") call.reduction = collectives::Reduction::max;
  for (size_t i = 0; i < moved.size(); ++i) {
    collectives::Part part{.shape = moved[i].shape};
    if (attrs.has("dims")) part.dim = attrs.list("dims")[i];
    if (kind == Kind::all_to_all) {
      part.dim = attrs.integer("split");
      part.concat_dim = attrs.integer("concat");
    }
    call.parts.push_back(std::move(part));
  }
  const bool alike = std::ranges::all_of(moved, [&](const ir::TensorType& type) { return type.dtype == call.dtype; });
  if (!alike) describe_as_bytes(call, moved);
  return call;
}

}  // namespace

std::vector<Call> calls_of(std::string_view op, const ops::NodeView& view) {
  const std::string_view moving = op == ops::kStartOp ? std::string_view(view.attrs.text("op")) : op;
  const std::optional<ops::Transfer>& transfer = ops::op_def(moving).transfer;
  if (!transfer) return {};  // a chip's own part of something, or the end of a call
  if (transfer->kind == ops::Transfer::Kind::pair_sum)
    return {describe(Kind::send, view.operands, view.attrs), describe(Kind::recv, view.results, view.attrs)};
  const Kind kind = kind_of(moving);
  return {describe(kind, kind == Kind::recv ? view.results : view.operands, view.attrs)};
}

int64_t workspace_bytes(const collectives::Transport& transport, std::string_view op, const ops::NodeView& view) {
  int64_t bytes = 0;
  for (const Call& call : calls_of(op, view))
    if (!collectives::is_point_to_point(call.kind))
      bytes += transport.workspace_bytes(call, view.attrs.integer("parts", 1));
  return bytes;
}

}  // namespace megacpp::runtime
