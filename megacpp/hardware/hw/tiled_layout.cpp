// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/tiled_layout.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/core/ir/dtype.h"

namespace megacpp::hw {
namespace {

using Shape = std::span<const int64_t>;
using Order = std::vector<int64_t>;  // dimensions, the minor one first

/// XLA's name, bits, other names.
struct TypeNames {
  std::string_view name;
  int bits;
  std::vector<std::string_view> others;
};

/// Ours, then what programs that others write have.
std::vector<TypeNames> make_type_table() {
  std::vector<TypeNames> table;
  for (const ir::DTypeRecord& type : ir::all_dtypes()) table.push_back({type.xla, type.bits, {type.name, type.numpy}});
  table.insert(table.end(), {{"f64", 64, {"float64"}},
                             {"s64", 64, {"i64", "int64"}},
                             {"u64", 64, {"uint64"}},
                             {"u32", 32, {"uint32"}},
                             {"f16", 16, {"float16"}},
                             {"s16", 16, {"i16", "int16"}},
                             {"u16", 16, {"uint16"}},
                             {"s8", 8, {"i8", "int8"}},
                             {"u8", 8, {"uint8"}},
                             {"f8e4m3fn", 8, {"float8_e4m3fn"}},
                             {"f8e5m2", 8, {"float8_e5m2"}}});
  return table;
}

const std::vector<TypeNames>& type_table() {
  static const std::vector<TypeNames> table = make_type_table();
  return table;
}

int64_t rounded_up(int64_t size, int64_t tile) { return (size + tile - 1) / tile * tile; }

int64_t next_power_of_two(int64_t size) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))));
}

/// The tiles of one element type. Elements below 4 bytes are packed into words of 4 along the second-minor dimension.
struct Tiles {
  Tiles(const Tiling& tiling, int bits)
      : lanes(tiling.lanes),
        pack(std::max(1, 32 / bits)),
        rows(tiling.rows.at(std::min(bits, 32))),
        largest_vector(tiling.lanes * tiling.rows.at(32)) {
    const auto tall = tiling.tall_rows.find(bits);
    if (tall != tiling.tall_rows.end()) tall_rows = tall->second;
  }

  /// Few rows take a flatter tile, many a tall one where it pads no more.
  int64_t tile_rows(int64_t size) const {
    if (size <= rows / 2) return std::max(next_power_of_two(size), pack);
    return tall_rows > 0 && rounded_up(size, tall_rows) == rounded_up(size, rows) ? tall_rows : rows;
  }
  int64_t vector_tile(int64_t size) const { return std::clamp(next_power_of_two(size), lanes * pack, largest_vector); }

  int64_t lanes;
  int64_t pack;
  int64_t rows;
  int64_t tall_rows = 0;
  int64_t largest_vector;  // elements of the largest tile of a vector
};

int64_t element_count(Shape shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t padded_elements(const Tiles& tiles, Shape shape, int64_t minor, int64_t second) {
  const int64_t rows = shape[static_cast<size_t>(second)], lanes = shape[static_cast<size_t>(minor)];
  return element_count(shape) / (rows * lanes) * rounded_up(rows, tiles.tile_rows(rows)) *
         rounded_up(lanes, tiles.lanes);
}

Order row_major(size_t rank) {
  Order order(rank);
  std::iota(order.rbegin(), order.rend(), int64_t{0});
  return order;
}

/// The two minor dimensions that pad least, then the others as they stand. Orders are tried from row-major on, so it
/// wins ties.
Order compact_order(const Tiles& tiles, Shape shape) {
  const Order dimensions = row_major(shape.size());
  std::pair<int64_t, int64_t> best;
  int64_t least = -1;
  for (const int64_t minor : dimensions)
    for (const int64_t second : dimensions) {
      if (minor == second) continue;
      const int64_t padded = padded_elements(tiles, shape, minor, second);
      if (least < 0 || padded < least) {
        least = padded;
        best = {minor, second};
      }
    }
  Order order = {best.first, best.second};
  for (const int64_t dimension : dimensions)
    if (dimension != best.first && dimension != best.second) order.push_back(dimension);
  return order;
}

std::string joined(Shape numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

/// "T(8,128)(2,1)"
std::string tile_text(const Tiles& tiles, Shape shape, const Order& order) {
  const std::string packed = tiles.pack > 1 ? "(" + std::to_string(tiles.pack) + ",1)" : "";
  if (order.size() < 2) {
    const std::string tile = "T(" + std::to_string(tiles.vector_tile(element_count(shape))) + ")";
    return order.empty() || packed.empty() ? tile : tile + "(" + std::to_string(tiles.lanes) + ")" + packed;
  }
  const int64_t rows = tiles.tile_rows(shape[static_cast<size_t>(order[1])]);
  return "T(" + std::to_string(rows) + "," + std::to_string(tiles.lanes) + ")" + packed;
}

int64_t tiled_elements(const Tiles& tiles, Shape shape, const Order& order) {
  if (element_count(shape) == 0) return 0;
  if (order.size() < 2) return rounded_up(element_count(shape), tiles.vector_tile(element_count(shape)));
  return padded_elements(tiles, shape, order[0], order[1]);
}

void require_order(Shape shape, Shape order) {
  Order sorted(order.begin(), order.end()), all = row_major(shape.size());
  std::sort(sorted.begin(), sorted.end());
  std::sort(all.begin(), all.end());
  MEGACPP_REQUIRE(sorted == all, E1604,
                  ({.where = "layout of [" + joined(shape) + "]",
                    .got = "[" + joined(order) + "]",
                    .wanted = "each of its dimensions once, the minor one first",
                    .next = "row-major is " + joined(row_major(shape.size()))}));
}

void require_sizes(Shape shape) {
  constexpr int64_t kMost = int64_t{1} << 50;
  int64_t elements = 1;
  for (const int64_t size : shape) {
    MEGACPP_REQUIRE(size >= 0 && size <= kMost && (size == 0 || elements <= kMost / size), E1604,
                    ({.where = "shape [" + joined(shape) + "]",
                      .got = std::to_string(size),
                      .wanted = "sizes from 0 up, 2^50 elements at most in all",
                      .next = "mend the shape"}));
    elements = std::max<int64_t>(elements * size, 1);
  }
}

int64_t bytes_in(const Chip& chip, int bits, Shape shape, const Order& order) {
  if (!chip.tiling.exists()) return rounded_up(element_count(shape) * bits / 8, chip.alignment);
  return tiled_elements(Tiles(chip.tiling, bits), shape, order) * bits / 8;
}

TensorLayout layout_in(const Chip& chip, const ElementType& type, Shape shape, Order order) {
  TensorLayout layout{.bytes = bytes_in(chip, type.bits, shape, order), .minor_to_major = std::move(order)};
  layout.text = type.name + "[" + joined(shape) + "]{" + joined(layout.minor_to_major);
  if (chip.tiling.exists()) layout.text += ":" + tile_text(Tiles(chip.tiling, type.bits), shape, layout.minor_to_major);
  layout.text += "}";
  return layout;
}

Order argument_order(const Chip& chip, int bits, Shape shape) {
  const bool has_choice = chip.tiling.exists() && shape.size() >= 2 && element_count(shape) > 0;
  return has_choice ? compact_order(Tiles(chip.tiling, bits), shape) : row_major(shape.size());
}

}  // namespace

ElementType element_type(std::string_view name) {
  for (const TypeNames& type : type_table())
    if (name == type.name || std::find(type.others.begin(), type.others.end(), name) != type.others.end())
      return {std::string(type.name), type.bits};
  std::vector<std::string> known;
  for (const TypeNames& type : type_table()) known.emplace_back(type.name);
  base::raise(base::Code::E1604, {.where = "dtype",
                                  .got = "'" + std::string(name) + "'",
                                  .wanted = "a dtype such as f32, bf16, s32 or s8",
                                  .next = base::did_you_mean(name, known, "take one of these")});
}

TensorLayout argument_layout(const Chip& chip, std::string_view dtype, Shape shape) {
  const ElementType type = element_type(dtype);
  require_sizes(shape);
  return layout_in(chip, type, shape, argument_order(chip, type.bits, shape));
}

// A plan asks for every tensor of its programs, so no text is made here.
int64_t argument_bytes(const Chip& chip, std::string_view dtype, Shape shape) {
  const int bits = element_type(dtype).bits;
  require_sizes(shape);
  return bytes_in(chip, bits, shape, argument_order(chip, bits, shape));
}

int64_t value_bytes(const Chip& chip, std::string_view dtype, Shape shape) {
  const int bits = element_type(dtype).bits;
  require_sizes(shape);
  const bool fills_a_row = !shape.empty() && shape.back() >= chip.tiling.lanes;
  return bytes_in(chip, bits, shape, fills_a_row ? row_major(shape.size()) : argument_order(chip, bits, shape));
}

TensorLayout forced_layout(const Chip& chip, std::string_view dtype, Shape shape, Shape minor_to_major) {
  const ElementType type = element_type(dtype);
  require_sizes(shape);
  require_order(shape, minor_to_major);
  return layout_in(chip, type, shape, Order(minor_to_major.begin(), minor_to_major.end()));
}

}  // namespace megacpp::hw
