// SPDX-License-Identifier: Apache-2.0
// Ops of a per-chip program that reach other chips or depend on which chip runs them. The group is the chips that
// differ along the mesh axes of attribute `axes` ("data+expert"), in the order of Mesh::group; `parts` is its size, so
// that types follow without the mesh. An optional text `cause` says why the compiler placed the node. The partitioner
// places these ops; what they compute stands in tests/support/collective_reference.h.
#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Shape;

// These ops appear after partitioning, so no dimension of theirs is ever split again.
Factors all_whole(const NodeView& view) {
  Factors factors;
  const auto whole = [&factors](const Types& types) {
    std::vector<DimFactors> tensors;
    for (const ir::TensorType& type : types) {
      DimFactors dims;
      for (const int64_t size : type.shape) {
        const size_t index = factors.factors.size();
        dims.push_back({static_cast<int>(index)});
        factors.factors.push_back({"f" + std::to_string(index), size, FactorKind::replicated});
      }
      tensors.push_back(std::move(dims));
    }
    return tensors;
  };
  factors.operands = whole(view.operands);
  factors.results = whole(view.results);
  return factors;
}

OpDef collective(std::string name, std::string doc) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.factors = all_whole;
  def.no_grad = "placed by the partitioner, after gradients";
  def.cost = [](const NodeView&) { return Cost{}; };
  def.is_collective = true;
  return def;
}

// Reading an attribute demands that it is there.
int64_t require_parts(std::string_view op, const ir::Attrs& attrs) {
  attrs.text("axes");
  require_at_least(op, attrs, "parts", 1);
  return attrs.integer("parts");
}

void require_peer(const ir::Attrs& attrs) {
  attrs.text("axes");
  attrs.integer("peer");
  attrs.integer("tag");
}

ir::TensorType resized(ir::TensorType type, int64_t dim, int64_t size) {
  type.shape[static_cast<size_t>(dim)] = size;
  return type;
}

// The dimension of each operand.
const std::vector<int64_t>& require_dims(std::string_view op, const Types& operands, const ir::Attrs& attrs) {
  const std::vector<int64_t>& dims = attrs.list("dims");
  MEGACPP_REQUIRE(!operands.empty() && dims.size() == operands.size(), E1301,
                  {.where = std::string(op),
                   .got = std::to_string(operands.size()) + " operands and dims " + ir::to_string(dims),
                   .wanted = "one or more operands, one dimension for each"});
  for (size_t i = 0; i < dims.size(); ++i) require_dim(op, dims[i], operands[i].shape);
  return dims;
}

int64_t divided(std::string_view op, const ir::TensorType& type, int64_t dim, int64_t parts) {
  MEGACPP_REQUIRE(type.dim(dim) % parts == 0, E1301,
                  {.where = std::string(op),
                   .got = to_string(type) + " along " + std::to_string(dim),
                   .wanted = "a multiple of " + std::to_string(parts)});
  return type.dim(dim) / parts;
}

void require_numbers(std::string_view op, const Types& operands) {
  for (const ir::TensorType& type : operands)
    require_operands(type.dtype != DType::pred, op, operands, "numbers, not truth values");
}

// `attrs` with the group every sample shares: `parts` chips along axis "x".
Sample sample_over(int64_t parts, std::vector<Shape> shapes, ir::Attrs attrs, DType dtype = DType::f32) {
  Sample sample{.name = "", .operands = {}, .attrs = std::move(attrs)};
  for (Shape& shape : shapes) {
    sample.name += ir::to_string(shape);
    sample.operands.push_back({dtype, std::move(shape)});
  }
  sample.attrs.set("axes", std::string("x"));
  sample.attrs.set("parts", parts);
  sample.name += "_over_" + std::to_string(parts);
  return sample;
}

// ---- StableHLO: XLA joins collectives of its own accord, so each operand travels by itself ----

std::string group_attrs(HloWriter& w, const std::string& groups) {
  return "replica_groups = " + groups + ", channel_handle = " + w.next_channel();
}

std::string group_attrs(HloWriter& w, const ir::Attrs& attrs) {
  return group_attrs(w, w.replica_groups(ir::parse_axes(attrs.text("axes"), w.mesh())));
}

HloResults each(const HloArgs& args, const std::function<HloValue(const HloValue&, size_t)>& write) {
  HloResults results;
  for (size_t i = 0; i < args.operands.size(); ++i) results.push_back(write(args.operands[i], i));
  return results;
}

HloResults hlo_all_gather(HloWriter& w, const HloArgs& args) {
  return each(args, [&](const HloValue& x, size_t i) {
    return w.op("all_gather", {x}, args.result(i),
                "all_gather_dim = " + std::to_string(args.attrs().list("dims")[i]) + " : i64, " +
                    group_attrs(w, args.attrs()) + ", use_global_device_ids");
  });
}

// A stage leaves each chip the part that the next one divides further: member i of n keeps part i, as after one stage,
// and all together send what one would.
HloResults hlo_reduce_scatter(HloWriter& w, const HloArgs& args) {
  const ir::Axes axes = ir::parse_axes(args.attrs().text("axes"), w.mesh());
  const std::vector<GroupStage> stages = scatter_stages(w.mesh().size(axes), w.mesh().chips(), w.compiler());
  return each(args, [&](HloValue x, size_t i) {
    const int64_t dim = args.attrs().list("dims")[i];
    for (const GroupStage& stage : stages) {
      HloType part = x.type;
      part.shape[static_cast<size_t>(dim)] /= stage.size;
      const std::string groups = group_attrs(w, w.replica_groups(axes, stage));
      x = w.ops("reduce_scatter", std::span(&x, 1),
                "scatter_dimension = " + std::to_string(dim) + " : i64, " + groups + ", use_global_device_ids", {part},
                w.scalar_region("add", part.element))[0];
    }
    return x;
  });
}

HloResults hlo_all_reduce(HloWriter& w, const HloArgs& args) {
  const std::string_view kind = args.attrs().text("kind") == "sum" ? "add" : "maximum";
  return each(args, [&](const HloValue& x, size_t i) {
    const std::string groups = group_attrs(w, args.attrs());
    return w.ops("all_reduce", std::span(&x, 1), groups + ", use_global_device_ids", {args.result(i)},
                 w.scalar_region(kind, x.type.element))[0];
  });
}

HloResults hlo_all_to_all(HloWriter& w, const HloArgs& args) {
  const auto number = [&](const char* name) { return std::to_string(args.attrs().integer(name)) + " : i64, "; };
  return each(args, [&](const HloValue& x, size_t i) {
    return w.op("all_to_all", {x}, args.result(i),
                "split_dimension = " + number("split") + "concat_dimension = " + number("concat") +
                    "split_count = " + number("parts") + group_attrs(w, args.attrs()));
  });
}

HloResults hlo_permute(HloWriter& w, const HloArgs& args) {
  const ir::Axes axes = ir::parse_axes(args.attrs().text("axes"), w.mesh());
  std::string pairs;
  for (int64_t chip = 0; chip < w.mesh().chips(); ++chip) {
    const std::vector<int64_t> group = w.mesh().group(chip, axes);
    const int64_t n = static_cast<int64_t>(group.size());
    const int64_t to = (w.mesh().index_in_group(chip, axes) + args.attrs().integer("shift") % n + n) % n;
    pairs +=
        (chip == 0 ? "[" : ", [") + std::to_string(chip) + ", " + std::to_string(group[static_cast<size_t>(to)]) + "]";
  }
  const std::string count = std::to_string(w.mesh().chips());
  return each(args, [&](const HloValue& x, size_t i) {
    return w.op("collective_permute", {x}, args.result(i),
                "source_target_pairs = dense<[" + pairs + "]> : tensor<" + count +
                    "x2xi64>, channel_handle = " + w.next_channel());
  });
}

// This chip's place in its group, or the one `shift` places before it.
HloValue own_index(HloWriter& w, const ir::Attrs& attrs) {
  const ir::Axes axes = ir::parse_axes(attrs.text("axes"), w.mesh());
  const int64_t n = w.mesh().size(axes), shift = attrs.integer("shift", 0) % n;
  std::vector<int64_t> indices;
  for (int64_t chip = 0; chip < w.mesh().chips(); ++chip)
    indices.push_back((w.mesh().index_in_group(chip, axes) - shift + n) % n);
  return w.of_this_chip(indices);
}

HloResults hlo_shard_slice(HloWriter& w, const HloArgs& args) {
  const int64_t dim = args.attrs().integer("dim"), size = args.result().shape[static_cast<size_t>(dim)];
  HloValue x = args.operands[0];
  const int64_t missing = size * args.attrs().integer("parts") - x.type.shape[static_cast<size_t>(dim)];
  if (missing > 0) x = w.pad(x, dim, 0, missing, 0);
  const HloValue index = own_index(w, args.attrs());
  const HloValue start = w.binary("multiply", index, w.constant(static_cast<double>(size), index.type));
  return {w.dynamic_slice(x, dim, start, size)};
}

using Dims = std::vector<int64_t>;

// ---- What they move: the count of every textbook for a ring ----

int64_t all_of_own(int64_t own, int64_t) { return own; }
int64_t nothing(int64_t, int64_t) { return 0; }
int64_t own_to_each_other(int64_t own, int64_t parts) { return own * (parts - 1); }
int64_t own_but_one_part(int64_t own, int64_t parts) { return own * (parts - 1) / parts; }
int64_t own_but_one_part_twice(int64_t own, int64_t parts) { return 2 * own * (parts - 1) / parts; }

// How it reduces, if it does, and in which dtype.
std::string reduction_key(const ir::Attrs& attrs, DType dtype) {
  return attrs.text("kind", "sum") + " " + std::string(ir::dtype_name(dtype));
}
std::string shift_key(const ir::Attrs& attrs, DType) { return std::to_string(attrs.integer("shift")); }
std::string dims_key(const ir::Attrs& attrs, DType) {
  return std::to_string(attrs.integer("split")) + " to " + std::to_string(attrs.integer("concat"));
}

}  // namespace

OpDef all_gather_def() {
  OpDef def = collective("all_gather", "each operand's parts on all members joined along its dims[i], in group order");
  def.transfer = Transfer{.kind = Transfer::Kind::gather,
                          .sent_bytes = own_to_each_other,
                          .route = Transfer::Route::ring,
                          .bucket_key = reduction_key};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const int64_t parts = require_parts("all_gather", attrs);
    const auto& dims = require_dims("all_gather", operands, attrs);
    Types results;
    for (size_t i = 0; i < dims.size(); ++i)
      results.push_back(resized(operands[i], dims[i], operands[i].dim(dims[i]) * parts));
    return results;
  };
  def.stablehlo = hlo_all_gather;
  def.samples = [] {
    return std::vector<Sample>{sample_over(2, {{3, 4}}, {{"dims", Dims{0}}}),
                               sample_over(3, {{2, 5}, {4}, {2, 1, 3}}, {{"dims", Dims{1, 0, 2}}}),
                               sample_over(2, {{3}}, {{"dims", Dims{0}}}, DType::i32),
                               sample_over(1, {{3, 4}}, {{"dims", Dims{1}}}, DType::bf16)};
  };
  return def;
}

OpDef reduce_scatter_def() {
  OpDef def = collective("reduce_scatter", "each operand summed over the group; member i keeps part i along dims[i]");
  def.transfer = Transfer{.kind = Transfer::Kind::reduce,
                          .sent_bytes = own_but_one_part,
                          .route = Transfer::Route::ring,
                          .bucket_key = reduction_key};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const int64_t parts = require_parts("reduce_scatter", attrs);
    require_numbers("reduce_scatter", operands);
    const auto& dims = require_dims("reduce_scatter", operands, attrs);
    Types results;
    for (size_t i = 0; i < dims.size(); ++i)
      results.push_back(resized(operands[i], dims[i], divided("reduce_scatter", operands[i], dims[i], parts)));
    return results;
  };
  def.stablehlo = hlo_reduce_scatter;
  def.samples = [] {
    return std::vector<Sample>{sample_over(2, {{6, 5}}, {{"dims", Dims{0}}}),
                               sample_over(3, {{2, 6}, {9}, {2, 3, 1}}, {{"dims", Dims{1, 0, 1}}}),
                               sample_over(1, {{3, 4}}, {{"dims", Dims{1}}}, DType::bf16)};
  };
  return def;
}

OpDef all_reduce_def() {
  OpDef def = collective("all_reduce", "each operand's sum or max (kind) over the group, on every member");
  def.transfer = Transfer{.kind = Transfer::Kind::reduce,
                          .sent_bytes = own_but_one_part_twice,
                          .route = Transfer::Route::ring,
                          .joins = Transfer::Joins::small_tensors,
                          .bucket_key = reduction_key};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_parts("all_reduce", attrs);
    require_numbers("all_reduce", operands);
    require_operands(!operands.empty(), "all_reduce", operands, "one or more");
    const std::string& kind = attrs.text("kind");
    MEGACPP_REQUIRE(kind == "sum" || kind == "max", E1301,
                    {.where = "all_reduce", .got = "kind " + kind, .wanted = "sum or max"});
    return operands;
  };
  def.may_alias = 0;
  def.stablehlo = hlo_all_reduce;
  def.samples = [] {
    return std::vector<Sample>{sample_over(2, {{3, 4}}, {{"kind", std::string("sum")}}),
                               sample_over(3, {{2, 5}, {}, {7}}, {{"kind", std::string("sum")}}),
                               sample_over(2, {{3}, {2, 2}}, {{"kind", std::string("max")}}),
                               sample_over(1, {{5}}, {{"kind", std::string("sum")}}, DType::i32)};
  };
  return def;
}

OpDef all_to_all_def() {
  OpDef def = collective("all_to_all",
                         "of each operand member i gets part i along `split` of every member, joined along `concat`");
  def.transfer = Transfer{.kind = Transfer::Kind::exchange,
                          .sent_bytes = own_but_one_part,
                          .route = Transfer::Route::all_pairs,
                          .joins = Transfer::Joins::always,
                          .bucket_key = dims_key};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const int64_t parts = require_parts("all_to_all", attrs);
    const int64_t split = attrs.integer("split"), concat = attrs.integer("concat");
    require_operands(!operands.empty(), "all_to_all", operands, "one or more");
    MEGACPP_REQUIRE(split != concat, E1301,
                    {.where = "all_to_all",
                     .got = "split and concat both " + std::to_string(split),
                     .wanted = "two different dimensions"});
    Types results;
    for (const ir::TensorType& operand : operands) {
      require_dim("all_to_all", split, operand.shape);
      require_dim("all_to_all", concat, operand.shape);
      const ir::TensorType part = resized(operand, split, divided("all_to_all", operand, split, parts));
      results.push_back(resized(part, concat, part.dim(concat) * parts));
    }
    return results;
  };
  def.stablehlo = hlo_all_to_all;
  def.samples = [] {
    Sample several = sample_over(2, {{3, 4, 5}, {1, 2}}, {{"split", int64_t{1}}, {"concat", int64_t{0}}});
    several.operands[1].dtype = DType::i32;
    return std::vector<Sample>{
        sample_over(2, {{4, 3}}, {{"split", int64_t{0}}, {"concat", int64_t{1}}}),
        sample_over(3, {{2, 3, 6}}, {{"split", int64_t{2}}, {"concat", int64_t{0}}}), several,
        sample_over(2, {{1, 2, 5}}, {{"split", int64_t{1}}, {"concat", int64_t{2}}}, DType::bf16)};
  };
  return def;
}

OpDef collective_start_def() {
  OpDef def = collective(std::string(kStartOp), "begins the collective `op`; its results are there after the done");
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const std::string& name = attrs.text("op");
    const OpDef* op = find_op(name);
    MEGACPP_REQUIRE(op != nullptr && op->is_collective && name != kStartOp && name != kDoneOp, E1301,
                    {.where = std::string(kStartOp), .got = "op " + name, .wanted = "a collective"});
    return op->infer(operands, attrs);
  };
  def.samples = [] {
    return std::vector<Sample>{
        sample_over(3, {{2, 5}, {4}}, {{"dims", Dims{1, 0}}, {"op", std::string("all_gather")}}),
        sample_over(2, {{3}}, {{"kind", std::string("sum")}, {"op", std::string("all_reduce")}})};
  };
  return def;
}

OpDef collective_done_def() {
  OpDef def = collective(std::string(kDoneOp), "what a collective_start brings, once it is whole");
  def.is_view = true;
  def.keeps_order = true;
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_parts(kDoneOp, attrs);
    require_operands(!operands.empty(), kDoneOp, operands, "one or more");
    return operands;
  };
  def.samples = [] { return std::vector<Sample>{sample_over(2, {{3, 4}, {2}}, {{"op", std::string("permute")}})}; };
  return def;
}

OpDef permute_def() {
  OpDef def = collective("permute", "member i gets the operands of member i - shift, counted around the group");
  def.transfer = Transfer{.kind = Transfer::Kind::exchange,
                          .sent_bytes = all_of_own,
                          .route = Transfer::Route::one_peer,
                          .joins = Transfer::Joins::always,
                          .bucket_key = shift_key};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_parts("permute", attrs);
    attrs.integer("shift");
    require_operands(!operands.empty(), "permute", operands, "one or more");
    return operands;
  };
  def.stablehlo = hlo_permute;
  def.samples = [] {
    return std::vector<Sample>{sample_over(2, {{3, 4}}, {{"shift", int64_t{1}}}),
                               sample_over(3, {{2, 5}, {}, {7}}, {{"shift", int64_t{-1}}}),
                               sample_over(3, {{3}}, {{"shift", int64_t{5}}}, DType::i32)};
  };
  return def;
}

OpDef send_def() {
  OpDef def = collective("send", "hands the operand to the member `peer` places further along `axes`; no result");
  def.transfer = Transfer{.kind = Transfer::Kind::send, .sent_bytes = all_of_own, .route = Transfer::Route::one_peer};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_peer(attrs);
    require_operand_count("send", operands, 1);
    return Types{};
  };
  def.samples = [] {
    return std::vector<Sample>{{.name = "next",
                                .operands = {{DType::f32, {3, 4}}},
                                .attrs = {{"axes", std::string("x")}, {"peer", int64_t{1}}, {"tag", int64_t{7}}}}};
  };
  return def;
}

OpDef recv_def() {
  OpDef def = collective("recv", "what the member `peer` places further along `axes` sends under the same tag");
  def.transfer = Transfer{.kind = Transfer::Kind::receive, .sent_bytes = nothing, .route = Transfer::Route::one_peer};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_peer(attrs);
    require_operand_count("recv", operands, 0);
    return Types{{require_dtype("recv", attrs.text("dtype")), attrs.list("shape")}};
  };
  def.samples = [] {
    return std::vector<Sample>{{.name = "previous",
                                .operands = {},
                                .attrs = {{"axes", std::string("x")},
                                          {"peer", int64_t{-1}},
                                          {"tag", int64_t{7}},
                                          {"dtype", std::string("bf16")},
                                          {"shape", Shape{3, 4}}}}};
  };
  return def;
}

OpDef exchange_sum_def() {
  OpDef def = collective("exchange_sum", "the operand plus that of the member `peer` places further along `axes`");
  def.factors = elementwise_factors;
  def.linear = linear_together;
  def.transfer =
      Transfer{.kind = Transfer::Kind::pair_sum, .sent_bytes = all_of_own, .route = Transfer::Route::one_peer};
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_peer(attrs);
    require_operand_count("exchange_sum", operands, 1);
    return operands;
  };
  def.samples = [] {
    return std::vector<Sample>{{.name = "last",
                                .operands = {{DType::f32, {3, 4}}},
                                .attrs = {{"axes", std::string("x")}, {"peer", int64_t{2}}, {"tag", int64_t{3}}}}};
  };
  return def;
}

OpDef shard_index_def() {
  OpDef def = collective("shard_index", "this chip's index in its group");
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_parts("shard_index", attrs);
    require_operand_count("shard_index", operands, 0);
    return Types{{DType::i32, {}}};
  };
  def.stablehlo = [](HloWriter& w, const HloArgs& args) { return HloResults{own_index(w, args.attrs())}; };
  def.samples = [] { return std::vector<Sample>{sample_over(3, {}, {})}; };
  return def;
}

OpDef shard_slice_def() {
  OpDef def = collective("shard_slice",
                         "this chip's part along dim of a tensor all hold whole, or that of the member `shift` places "
                         "before it, counted around the group; zeros past its end");
  def.keeps_order = true;
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const int64_t parts = require_parts("shard_slice", attrs), dim = attrs.integer("dim");
    require_operand_count("shard_slice", operands, 1);
    require_dim("shard_slice", dim, operands[0].shape);
    return Types{resized(operands[0], dim, (operands[0].dim(dim) + parts - 1) / parts)};
  };
  def.linear = linear_together;
  def.stablehlo = hlo_shard_slice;
  def.samples = [] {
    return std::vector<Sample>{sample_over(2, {{4, 3}}, {{"dim", int64_t{0}}}),
                               sample_over(3, {{2, 7}}, {{"dim", int64_t{1}}}),
                               sample_over(3, {{2, 6}}, {{"dim", int64_t{1}}, {"shift", int64_t{2}}}),
                               sample_over(3, {{4}}, {{"dim", int64_t{0}}}, DType::i32)};
  };
  return def;
}

}  // namespace megacpp::ops
