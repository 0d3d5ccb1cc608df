// SPDX-License-Identifier: Apache-2.0
// Rectangles of a tensor: what a chip holds of it, what a file has of it, and copies of what two of them share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::checkpoint {

/// Elements [offset, offset + shape) of a whole tensor, by dimension.
struct Box {
  ir::Shape offset;
  ir::Shape shape;

  int64_t elements() const { return ir::num_elements(shape); }
  auto operator<=>(const Box&) const = default;
};

std::string to_string(const Box& box);  // "[0,8]+[4,8]": offset and shape

/// What is real of a chip's part, without padding; empty dimensions where the chip holds padding alone.
Box box_of(const ir::Shape& whole, const ir::Sharding& sharding, const ir::Mesh& mesh, int64_t chip);

/// A box in memory, row-major, at the beginning of a buffer of shape `stored`, which may have padding behind it in
/// every dimension.
template <typename Byte>
struct BoxBytes {
  const Box& box;
  const ir::Shape& stored;
  std::span<Byte> bytes;
};

/// Copies the elements that both have; returns their bytes.
int64_t copy_overlap(const BoxBytes<const std::byte>& from, const BoxBytes<std::byte>& to, int64_t element_bytes);

}  // namespace megacpp::checkpoint
