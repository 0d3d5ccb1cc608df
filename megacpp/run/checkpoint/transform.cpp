// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/transform.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/run/checkpoint/adapters.h"
#include "megacpp/run/checkpoint/writer.h"

namespace megacpp::checkpoint {
namespace {

/// Tensors that a new checkpoint is made of, whole.
struct WholeTensors {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<PieceBytes> pieces = {};

  /// Cut along the first dimension, as evenly as it goes.
  void add(const std::string& name, const SavedTensor& tensor, int64_t shards, std::vector<std::byte> whole) {
    bytes.push_back(std::move(whole));
    const ir::Shape& shape = tensor.whole.shape;
    const int64_t rows = shape.empty() ? 1 : shape[0];
    if (tensor.whole.elements() == 0) return;
    const int64_t row_bytes = tensor.whole.bytes() / rows;
    for (int64_t shard = 0; shard < shards; ++shard) {
      const int64_t begin = rows * shard / shards, end = rows * (shard + 1) / shards;
      if (begin == end) continue;
      Box box{ir::Shape(shape.size(), 0), shape};
      if (!shape.empty()) {
        box.offset[0] = begin;
        box.shape[0] = end - begin;
      }
      pieces.push_back({.tensor = name,
                        .whole = tensor.whole,
                        .is_weight = tensor.is_weight,
                        .shard = shard,
                        .box = std::move(box),
                        .bytes = std::span(bytes.back())
                                     .subspan(static_cast<size_t>(begin * row_bytes),
                                              static_cast<size_t>((end - begin) * row_bytes))});
    }
  }
};

Manifest position_of(const Manifest& manifest) {
  Manifest header = manifest;
  header.files.clear();
  header.tensors.clear();
  return header;
}

void require_same_weights(const Reader& a, const Reader& b) {
  const auto refuse = [&](const std::string& got, const std::string& wanted) {
    base::raise(base::Code::E1205, {.where = b.folder().string(),
                                    .got = got,
                                    .wanted = wanted,
                                    .next = "average checkpoints of one run, or of runs of the same model"});
  };
  if (a.manifest().model != b.manifest().model) refuse("another model", "that of " + a.folder().string());
  for (const auto& [name, tensor] : a.manifest().tensors) {
    if (!tensor.is_weight) continue;
    const auto at = b.manifest().tensors.find(name);
    if (at == b.manifest().tensors.end()) refuse("no tensor '" + name + "'", ir::to_string(tensor.whole));
    if (at->second.whole != tensor.whole)
      refuse("'" + name + "' as " + ir::to_string(at->second.whole), ir::to_string(tensor.whole));
  }
}

std::vector<std::byte> mean_of(std::span<const Reader> readers, const std::string& name, const ir::TensorType& type) {
  std::vector<double> sum(static_cast<size_t>(type.elements()));
  for (const Reader& reader : readers) {
    const std::vector<std::byte> whole = reader.read_whole(name, ir::DType::f32);
    for (size_t i = 0; i < sum.size(); ++i) {
      float value = 0;
      std::memcpy(&value, whole.data() + i * sizeof value, sizeof value);
      sum[i] += static_cast<double>(value);
    }
  }
  std::vector<std::byte> mean(sum.size() * sizeof(float));
  for (size_t i = 0; i < sum.size(); ++i) {
    const auto value = static_cast<float>(sum[i] / static_cast<double>(readers.size()));
    std::memcpy(mean.data() + i * sizeof value, &value, sizeof value);
  }
  return mean;
}

bool is_left_out(const std::string& name, const SavedTensor& saved, const ConvertOptions& options) {
  if (!saved.is_weight) return options.weights_only || options.adapters != Adapters::kept;
  if (options.adapters == Adapters::alone) return !blocks::is_adapter(name);
  return options.adapters == Adapters::merged && blocks::is_adapter(name);
}

std::vector<std::byte> new_bytes(const Reader& reader, const std::string& name, ir::DType dtype,
                                 const ConvertOptions& options) {
  if (options.adapters != Adapters::merged || !has_adapters(reader.manifest(), name))
    return reader.read_whole(name, dtype);
  return to_bytes(read_merged(reader, name).data, dtype);
}

Manifest new_header(const Reader& reader, const ConvertOptions& options) {
  Manifest header = position_of(reader.manifest());
  if (options.adapters == Adapters::merged)
    std::erase_if(header.model, [](const auto& setting) { return setting.first.starts_with("lora."); });
  return header;
}

}  // namespace

Manifest convert(const Reader& reader, const std::filesystem::path& folder, const ConvertOptions& options) {
  if (options.adapters != Adapters::kept) alpha_of(reader);
  WholeTensors tensors;
  for (const auto& [name, saved] : reader.manifest().tensors) {
    if (is_left_out(name, saved, options)) continue;
    SavedTensor tensor = saved;
    if (options.type && saved.is_weight && ir::is_float(saved.whole.dtype)) tensor.whole.dtype = *options.type;
    tensors.add(name, tensor, options.shards, new_bytes(reader, name, tensor.whole.dtype, options));
  }
  return write_checkpoint(folder, new_header(reader, options), tensors.pieces);
}

Manifest average(std::span<const Reader> readers, const std::filesystem::path& folder) {
  for (const Reader& reader : readers) require_same_weights(readers.front(), reader);
  WholeTensors tensors;
  for (const auto& [name, saved] : readers.front().manifest().tensors) {
    if (!saved.is_weight) continue;
    SavedTensor tensor = saved;
    if (!ir::is_float(saved.whole.dtype)) {
      tensors.add(name, tensor, 1, readers.back().read_whole(name, saved.whole.dtype));
      continue;
    }
    tensor.whole.dtype = ir::DType::f32;
    tensors.add(name, tensor, 1, mean_of(readers, name, tensor.whole));
  }
  return write_checkpoint(folder, position_of(readers.back().manifest()), tensors.pieces);
}

}  // namespace megacpp::checkpoint
