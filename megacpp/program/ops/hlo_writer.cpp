// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/hlo_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"

namespace megacpp::ops {
namespace {

std::string array(const std::vector<int64_t>& values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

// A product of f32 is one of f32 on every device: GPUs and TPUs would round its operands first.
constexpr const char* kWholePrecision =
    ", precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]";

constexpr int64_t kSmallestSquare = 16;

// The record of an element type; nullptr: one that is not ours.
const ir::DTypeRecord* record_of(const std::string& element) {
  const auto at = std::ranges::find(ir::all_dtypes(), element, &ir::DTypeRecord::hlo);
  return at == ir::all_dtypes().end() ? nullptr : &*at;
}

bool is_real(const std::string& element) {
  const ir::DTypeRecord* const type = record_of(element);
  return type != nullptr && type->is_real();
}

// A number as MLIR reads it back to the same bits; infinities have no decimal form.
std::string literal(double value, const std::string& element) {
  const ir::DTypeRecord* const type = record_of(element);
  if (type != nullptr && type->kind == ir::ElementKind::flag) return value != 0 ? "true" : "false";
  if (!is_real(element)) return fmt::format("{}", static_cast<int64_t>(value));
  if (std::isfinite(value)) return fmt::format("{:.17e}", value);
  const double plain = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  return fmt::format("0x{:0{}X}", ir::bits_of(ir::dtype_named(type->name), plain), type->bits / 4);
}

// The value that no element is less than.
double identity_of_max(const std::string& element) {
  const ir::DTypeRecord* const type = record_of(element);
  MEGACPP_CHECK(type != nullptr) << "a maximum of " << element;
  return type->has_infinity ? -INFINITY : type->least;
}

}  // namespace

HloType hlo_type(const ir::TensorType& type) { return {std::string(ir::record(type.dtype).hlo), type.shape}; }

bool is_narrow(const HloType& type) {
  const ir::DTypeRecord* const ours = record_of(type.element);
  return ours != nullptr && ir::is_narrow(ir::dtype_named(ours->name));
}

std::string to_text(const HloType& type) {
  std::string text = "tensor<";
  for (const int64_t size : type.shape) text += std::to_string(size) + "x";
  return text + type.element + ">";
}

std::string sharding_text(const ir::Sharding& sharding, const ir::Mesh& mesh) {
  std::vector<std::string> dims;
  for (const ir::Axes& axes : sharding.dims) {
    std::vector<std::string> names;
    for (const ir::AxisId axis : axes) names.push_back("\"" + mesh.name(axis) + "\"");
    dims.push_back(fmt::format("{{{}}}", fmt::join(names, ", ")));
  }
  return fmt::format("<@mesh, [{}]>", fmt::join(dims, ", "));
}

// "%3 = WHAT(%1, %2) MIDDLE : (types) -> types"
std::vector<HloValue> HloWriter::write(const std::string& what, std::span<const HloValue> operands,
                                       const std::string& middle, const std::vector<HloType>& results) {
  std::vector<std::string> names, operand_types, result_types;
  for (const HloValue& operand : operands) {
    names.push_back(operand.name);
    operand_types.push_back(to_text(operand.type));
  }
  for (const HloType& result : results) result_types.push_back(to_text(result));
  const std::string name = "%" + std::to_string(next_++);
  text_ += fmt::format("  {}{} = {}({}){} : ({}) -> ({})", name,
                       results.size() == 1 ? "" : ":" + std::to_string(results.size()), what, fmt::join(names, ", "),
                       middle, fmt::join(operand_types, ", "), fmt::join(result_types, ", "));
  text_ += location_.empty() ? "\n" : fmt::format(" loc(\"{}\")\n", location_);
  if (results.size() == 1) return {{name, results[0]}};
  std::vector<HloValue> values;
  for (size_t i = 0; i < results.size(); ++i) values.push_back({fmt::format("{}#{}", name, i), results[i]});
  return values;
}

std::vector<HloValue> HloWriter::ops(std::string_view op, std::span<const HloValue> operands, const std::string& attrs,
                                     const std::vector<HloType>& results, const std::string& region) {
  return write(fmt::format("\"stablehlo.{}\"", op), operands,
               (region.empty() ? "" : " " + region) + (attrs.empty() ? "" : " {" + attrs + "}"), results);
}

std::vector<HloValue> HloWriter::call(const std::string& function, std::span<const HloValue> operands,
                                      const std::vector<HloType>& results) {
  return write("func.call @" + function, operands, "", results);
}

HloValue HloWriter::op(std::string_view op, std::initializer_list<HloValue> operands, const HloType& result,
                       const std::string& attrs) {
  return ops(op, std::span(operands.begin(), operands.size()), attrs, {result})[0];
}

HloValue HloWriter::constant(double value, const HloType& type) {
  return op("constant", {}, type, fmt::format("value = dense<{}> : {}", literal(value, type.element), to_text(type)));
}

HloValue HloWriter::word(uint32_t value, const HloType& type) {
  return op("constant", {}, type, fmt::format("value = dense<{}> : {}", value, to_text(type)));
}

HloValue HloWriter::iota(const HloType& type, int64_t dim) {
  return op("iota", {}, type, fmt::format("iota_dimension = {} : i64", dim));
}

HloValue HloWriter::convert(const HloValue& a, const std::string& element) {
  return a.type.element == element ? a : op("convert", {a}, {element, a.type.shape});
}

HloValue HloWriter::compare(const HloValue& a, const HloValue& b, std::string_view direction) {
  const std::string_view kind = is_real(a.type.element)                                      ? "FLOAT"
                                : a.type.element.starts_with("ui") || a.type.element == "i1" ? "UNSIGNED"
                                                                                             : "SIGNED";
  return op("compare", {a, b}, {"i1", a.type.shape},
            fmt::format("comparison_direction = #stablehlo<comparison_direction {}>, compare_type = "
                        "#stablehlo<comparison_type {}>",
                        direction, kind));
}

HloValue HloWriter::select(const HloValue& predicate, const HloValue& on_true, const HloValue& on_false) {
  return op("select", {predicate, on_true, on_false}, on_true.type);
}

HloValue HloWriter::broadcast(const HloValue& a, const ir::Shape& shape, const std::vector<int64_t>& dims) {
  return op("broadcast_in_dim", {a}, {a.type.element, shape}, "broadcast_dimensions = " + array(dims));
}

HloValue HloWriter::reshape(const HloValue& a, const ir::Shape& shape) {
  return a.type.shape == shape ? a : op("reshape", {a}, {a.type.element, shape});
}

HloValue HloWriter::transpose(const HloValue& a, const std::vector<int64_t>& permutation) {
  ir::Shape shape;
  for (const int64_t dim : permutation) shape.push_back(a.type.shape[static_cast<size_t>(dim)]);
  return op("transpose", {a}, {a.type.element, shape}, "permutation = " + array(permutation));
}

HloValue HloWriter::slice(const HloValue& a, int64_t dim, int64_t start, int64_t size) {
  const size_t d = static_cast<size_t>(dim);
  if (a.type.shape[d] == size) return a;
  std::vector<int64_t> starts(a.type.shape.size(), 0), limits = a.type.shape, strides(a.type.shape.size(), 1);
  starts[d] = start;
  limits[d] = start + size;
  ir::Shape shape = a.type.shape;
  shape[d] = size;
  return op("slice", {a}, {a.type.element, shape},
            fmt::format("start_indices = {}, limit_indices = {}, strides = {}", array(starts), array(limits),
                        array(strides)));
}

HloValue HloWriter::pad(const HloValue& a, int64_t dim, int64_t low, int64_t high, double value) {
  const size_t d = static_cast<size_t>(dim);
  std::vector<int64_t> lows(a.type.shape.size(), 0), highs = lows, inside = lows;
  lows[d] = low;
  highs[d] = high;
  ir::Shape shape = a.type.shape;
  shape[d] += low + high;
  return op("pad", {a, constant(value, {a.type.element, {}})}, {a.type.element, shape},
            fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}", array(lows),
                        array(highs), array(inside)));
}

HloValue HloWriter::concatenate(std::span<const HloValue> parts, int64_t dim) {
  HloType type = parts[0].type;
  int64_t& size = type.shape[static_cast<size_t>(dim)];
  size = 0;
  for (const HloValue& part : parts) size += part.type.shape[static_cast<size_t>(dim)];
  return ops("concatenate", parts, fmt::format("dimension = {} : i64", dim), {type})[0];
}

HloValue HloWriter::reduce(const HloValue& a, const std::vector<int64_t>& dims, std::string_view kind) {
  HloType type{a.type.element, {}};
  for (size_t d = 0; d < a.type.shape.size(); ++d)
    if (std::ranges::find(dims, static_cast<int64_t>(d)) == dims.end()) type.shape.push_back(a.type.shape[d]);
  const double first = kind == "maximum" ? identity_of_max(a.type.element) : 0.0;
  const std::vector<HloValue> operands = {a, constant(first, {a.type.element, {}})};
  return ops("reduce", operands, "dimensions = " + array(dims), {type}, scalar_region(kind, a.type.element))[0];
}

HloValue HloWriter::dot(const HloValue& lhs, const HloValue& rhs, const DotDims& dims, const std::string& element) {
  if (!compiler_.has_mixed_products && lhs.type.element != element && element == "f32") {
    const HloValue wide = convert(lhs, element);
    return dot(wide, convert(rhs, element), dims, element);
  }
  HloType type{element, {}};
  for (const int64_t d : dims.lhs_batch) type.shape.push_back(lhs.type.shape[static_cast<size_t>(d)]);
  const auto add_free = [&](const HloValue& side, const std::vector<int64_t>& batch, const std::vector<int64_t>& sum) {
    for (int64_t d = 0; d < static_cast<int64_t>(side.type.shape.size()); ++d)
      if (std::ranges::find(batch, d) == batch.end() && std::ranges::find(sum, d) == sum.end())
        type.shape.push_back(side.type.shape[static_cast<size_t>(d)]);
  };
  add_free(lhs, dims.lhs_batch, dims.lhs_contract);
  add_free(rhs, dims.rhs_batch, dims.rhs_contract);
  return op(
      "dot_general", {lhs, rhs}, type,
      fmt::format("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{}], "
                  "rhs_batching_dimensions = [{}], lhs_contracting_dimensions = [{}], "
                  "rhs_contracting_dimensions = [{}]>{}",
                  fmt::join(dims.lhs_batch, ", "), fmt::join(dims.rhs_batch, ", "), fmt::join(dims.lhs_contract, ", "),
                  fmt::join(dims.rhs_contract, ", "), lhs.type.element == "f32" ? kWholePrecision : ""));
}

HloValue HloWriter::shift(const HloValue& a, int64_t dim, int64_t by, double fill) {
  const int64_t size = a.type.shape[static_cast<size_t>(dim)], far = std::min(std::abs(by), size);
  if (by >= 0) return slice(pad(a, dim, far, 0, fill), dim, 0, size);
  return slice(pad(a, dim, 0, far, fill), dim, far, size);
}

HloValue HloWriter::cumsum(const HloValue& a, int64_t dim, bool reverse) {
  HloValue sum = a;
  for (int64_t by = 1; by < a.type.shape[static_cast<size_t>(dim)]; by *= 2)
    sum = binary("add", sum, shift(sum, dim, reverse ? -by : by));
  return sum;
}

// XLA clamps indices that point outside; a mask makes zeros of what it then reads.
HloValue HloWriter::take_rows(const HloValue& table, const HloValue& index, size_t batch) {
  const int64_t rows = table.type.shape[batch], width = table.type.shape[batch + 1];
  std::vector<int64_t> paired(batch), sizes(batch + 1, 1);
  std::iota(paired.begin(), paired.end(), int64_t{0});
  sizes.push_back(width);
  HloType type{table.type.element, index.type.shape};
  type.shape.push_back(width);
  const size_t rank = index.type.shape.size();
  const HloValue taken =
      op("gather", {table, index}, type,
         fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = [{0}], collapsed_slice_dims = [{1}], "
                     "operand_batching_dims = [{2}], start_indices_batching_dims = [{2}], start_index_map = [{1}], "
                     "index_vector_dim = {0}>, slice_sizes = {3}, indices_are_sorted = false",
                     rank, batch, fmt::join(paired, ", "), array(sizes)));
  const HloValue is_below = compare(index, constant(static_cast<double>(rows), index.type), "LT");
  const HloValue is_inside = binary("and", is_below, compare(index, constant(0, index.type), "GE"));
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return select(broadcast(is_inside, type.shape, dims), taken, constant(0, type));
}

HloValue HloWriter::add_rows(const HloValue& rows, const HloValue& index, int64_t n, size_t batch) {
  std::vector<int64_t> paired(batch);
  std::iota(paired.begin(), paired.end(), int64_t{0});
  HloType type{rows.type.element,
               ir::Shape(index.type.shape.begin(), index.type.shape.begin() + static_cast<std::ptrdiff_t>(batch))};
  type.shape.push_back(n);
  type.shape.push_back(rows.type.shape.back());
  const std::vector<HloValue> operands = {constant(0, type), index, rows};
  return ops("scatter", operands,
             fmt::format("scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [{0}], "
                         "inserted_window_dims = [{1}], input_batching_dims = [{2}], scatter_indices_batching_dims = "
                         "[{2}], scatter_dims_to_operand_dims = [{1}], index_vector_dim = {0}>, indices_are_sorted = "
                         "false, unique_indices = false",
                         index.type.shape.size(), batch, fmt::join(paired, ", ")),
             {type}, scalar_region("add", rows.type.element))[0];
}

HloValue HloWriter::one_hot(const HloValue& index, int64_t n, const std::string& element) {
  ir::Shape shape = index.type.shape;
  shape.push_back(n);
  std::vector<int64_t> dims(index.type.shape.size());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const HloValue wanted = iota({index.type.element, shape}, static_cast<int64_t>(dims.size()));
  return convert(compare(broadcast(index, shape, dims), wanted, "EQ"), element);
}

std::vector<HloValue> HloWriter::sort(std::span<const HloValue> operands, int64_t dim, const std::string& before) {
  std::vector<std::string> arguments;
  std::vector<HloType> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    for (const char* side : {"a", "b"})
      arguments.push_back(fmt::format("%{}{}: tensor<{}>", side, i, operands[i].type.element));
    types.push_back(operands[i].type);
  }
  const std::string region = fmt::format("({{ ^bb0({}): {} \"stablehlo.return\"(%r) : (tensor<i1>) -> () }})",
                                         fmt::join(arguments, ", "), before);
  return ops("sort", operands, fmt::format("dimension = {} : i64, is_stable = true", dim), types, region);
}

HloValue HloWriter::of_this_chip(const std::vector<int64_t>& values) {
  const HloType type{"i32", {static_cast<int64_t>(values.size())}};
  const HloValue table =
      op("constant", {}, type, fmt::format("value = dense<[{}]> : {}", fmt::join(values, ", "), to_text(type)));
  const HloValue chip = convert(op("partition_id", {}, {"ui32", {}}), "i32");
  return reshape(dynamic_slice(table, 0, chip, 1), {});
}

HloValue HloWriter::dynamic_slice(const HloValue& a, int64_t dim, const HloValue& start, int64_t size) {
  const HloValue zero = constant(0, start.type);
  std::vector<HloValue> operands(a.type.shape.size() + 1, zero);
  operands[0] = a;
  operands[static_cast<size_t>(dim) + 1] = start;
  HloType type = a.type;
  type.shape[static_cast<size_t>(dim)] = size;
  return ops("dynamic_slice", operands, "slice_sizes = " + array(type.shape), {type})[0];
}

HloValue HloWriter::take_member(const HloValue& stack, const HloValue& place) {
  return reshape(dynamic_slice(stack, 0, place, 1), {stack.type.shape.begin() + 1, stack.type.shape.end()});
}

HloValue HloWriter::put_slice(const HloValue& a, const HloValue& part, int64_t dim, const HloValue& start) {
  std::vector<HloValue> operands(a.type.shape.size() + 2, start);
  operands[0] = a;
  operands[1] = part;
  if (a.type.shape.size() > 1) {
    std::fill(operands.begin() + 2, operands.end(), constant(0, start.type));
    operands[static_cast<size_t>(dim) + 2] = start;
  }
  return ops("dynamic_update_slice", operands, "", {a.type})[0];
}

HloValue HloWriter::put_member(const HloValue& stack, const HloValue& member, const HloValue& place) {
  ir::Shape alone = stack.type.shape;
  alone[0] = 1;
  return put_slice(stack, reshape(member, alone), 0, place);
}

std::vector<HloValue> HloWriter::loop(int64_t count, const std::vector<HloValue>& carried, const LoopBody& body) {
  const HloType number{"i32", {}};
  if (count == 1) return body(constant(0, number), carried);
  return write_loop([&](const auto&) { return constant(static_cast<double>(count), number); }, carried, body);
}

// The number is carried with the rest: a loop's condition reads nothing else.
std::vector<HloValue> HloWriter::loop(const HloValue& count, const std::vector<HloValue>& carried,
                                      const LoopBody& body) {
  std::vector<HloValue> all = {count};
  all.insert(all.end(), carried.begin(), carried.end());
  std::vector<HloValue> results =
      write_loop([](const std::vector<HloValue>& inside) { return inside[0]; }, all,
                 [&](const HloValue& index, const std::vector<HloValue>& inside) {
                   std::vector<HloValue> next = body(index, {inside.begin() + 1, inside.end()});
                   next.insert(next.begin(), inside[0]);
                   return next;
                 });
  results.erase(results.begin());
  return results;
}

std::vector<HloValue> HloWriter::write_loop(const LoopCount& count, const std::vector<HloValue>& carried,
                                            const LoopBody& body) {
  const HloType number{"i32", {}};
  std::vector<HloValue> operands = {constant(0, number)};
  operands.insert(operands.end(), carried.begin(), carried.end());
  std::vector<std::string> arguments;
  std::vector<HloValue> inside;
  std::vector<HloType> types;
  for (const HloValue& operand : operands) {
    inside.push_back({"%" + std::to_string(next_++), operand.type});
    arguments.push_back(inside.back().name + ": " + to_text(operand.type));
    types.push_back(operand.type);
  }
  const std::string header = fmt::format("^bb0({}):\n", fmt::join(arguments, ", "));
  const auto region = [&](const auto& write_region) {
    std::string outside = std::exchange(text_, header);
    write_region();
    return std::exchange(text_, std::move(outside));
  };
  const std::string condition = region([&] {
    const HloValue goes_on = compare(inside[0], count({inside.begin() + 1, inside.end()}), "LT");
    text_ += "  \"stablehlo.return\"(" + goes_on.name + ") : (tensor<i1>) -> ()\n";
  });
  const std::string work = region([&] {
    std::vector<HloValue> next = body(inside[0], {inside.begin() + 1, inside.end()});
    next.insert(next.begin(), binary("add", inside[0], constant(1, number)));
    std::vector<std::string> names, texts;
    for (const HloValue& value : next) {
      names.push_back(value.name);
      texts.push_back(to_text(value.type));
    }
    text_ += fmt::format("  \"stablehlo.return\"({}) : ({}) -> ()\n", fmt::join(names, ", "), fmt::join(texts, ", "));
  });
  std::vector<HloValue> results = ops("while", operands, "", types, "({\n" + condition + "}, {\n" + work + "})");
  results.erase(results.begin());
  return results;
}

std::vector<GroupStage> scatter_stages(int64_t parts, int64_t chips, const CompilerTraits& compiler) {
  const int64_t side = std::llround(std::sqrt(static_cast<double>(chips)));
  if (compiler.has_square_scatters || parts != chips || chips < kSmallestSquare || side * side != chips)
    return {{.size = parts, .stride = 1}};
  return {{.size = side, .stride = side}, {.size = side, .stride = 1}};
}

std::string HloWriter::scalar_region(std::string_view op, const std::string& element) const {
  const std::string scalar = "tensor<" + element + ">";
  return fmt::format(
      "({{ ^bb0(%a: {0}, %b: {0}): %c = \"stablehlo.{1}\"(%a, %b) : ({0}, {0}) -> {0} \"stablehlo.return\"(%c) : ({0}) "
      "-> () }})",
      scalar, op);
}

std::string HloWriter::replica_groups(const ir::Axes& axes) const {
  return replica_groups(axes, {.size = mesh_.size(axes), .stride = 1});
}

std::string HloWriter::replica_groups(const ir::Axes& axes, const GroupStage& stage) const {
  std::vector<std::string> groups;
  for (int64_t chip = 0; chip < mesh_.chips(); ++chip) {
    const int64_t place = mesh_.index_in_group(chip, axes);
    if (place / stage.stride % stage.size != 0) continue;
    const std::vector<int64_t> whole = mesh_.group(chip, axes);
    std::vector<int64_t> members;
    for (int64_t i = 0; i < stage.size; ++i) members.push_back(whole[static_cast<size_t>(place + i * stage.stride)]);
    groups.push_back(fmt::format("[{}]", fmt::join(members, ", ")));
  }
  return fmt::format("dense<[{}]> : tensor<{}x{}xi64>", fmt::join(groups, ", "), groups.size(), stage.size);
}

std::vector<HloValue> HloWriter::barrier(std::span<const HloValue> values) {
  std::vector<HloType> types;
  for (const HloValue& value : values) types.push_back(value.type);
  return ops("optimization_barrier", values, "", types);
}

HloValue HloWriter::constrain(const HloValue& a, const ir::Sharding& sharding) {
  if (mesh_.chips() == 1 || !sharding.unreduced.empty()) return a;
  const std::string name = "%" + std::to_string(next_++);
  text_ += fmt::format("  {} = sdy.sharding_constraint {} {} : {}\n", name, a.name, sharding_text(sharding, mesh_),
                       to_text(a.type));
  return {name, a.type};
}

std::string HloWriter::next_channel() {
  return fmt::format("#stablehlo.channel_handle<handle = {}, type = 0>", next_channel_++);
}

}  // namespace megacpp::ops
