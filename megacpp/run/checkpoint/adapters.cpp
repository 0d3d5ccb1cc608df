// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/adapters.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/lora.h"

namespace megacpp::checkpoint {
namespace {

using blocks::kLoraA;
using blocks::kLoraB;

constexpr const char* kAlpha = "lora.alpha";

[[noreturn]] void refuse_adapter(const std::string& name, std::string got, std::string wanted) {
  base::raise(base::Code::E1205, {.where = name,
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "give the model that the adapters were trained on"});
}

/// [count, rows, columns]; leading dimensions are counted together.
struct Matrices {
  int64_t count = 1, rows = 0, columns = 0;

  explicit Matrices(const ir::Shape& shape) {
    if (shape.size() < 2) return;
    rows = shape[shape.size() - 2];
    columns = shape[shape.size() - 1];
    for (size_t d = 0; d + 2 < shape.size(); ++d) count *= shape[d];
  }
};

/// What A and B of a matrix must be, given the rank that A has.
void require_pair(const std::string& matrix, const ir::Shape& w, const ir::Shape& a, const ir::Shape& b) {
  ir::Shape wanted_a = w, wanted_b = w;
  if (w.size() < 2 || a.size() != w.size() || a.back() == 0)
    refuse_adapter(matrix + std::string(kLoraA), ir::to_string(a), "an adapter of " + ir::to_string(w));
  wanted_a[w.size() - 1] = wanted_b[w.size() - 2] = a.back();
  if (a != wanted_a) refuse_adapter(matrix + std::string(kLoraA), ir::to_string(a), ir::to_string(wanted_a));
  if (b != wanted_b) refuse_adapter(matrix + std::string(kLoraB), ir::to_string(b), ir::to_string(wanted_b));
}

/// w + alpha / rank * a b, row by row: the products of a row are added up in the order of the rank.
void add_product(FloatTensor& w, const FloatTensor& a, const FloatTensor& b, double alpha) {
  const Matrices size(w.shape);
  const int64_t rank = a.shape.back();
  const double scale = alpha / static_cast<double>(rank);
  std::vector<double> row(static_cast<size_t>(size.columns));
  for (int64_t r = 0; r < size.count * size.rows; ++r) {
    std::ranges::fill(row, 0.0);
    const float* const right = b.data.data() + r / size.rows * rank * size.columns;
    for (int64_t k = 0; k < rank; ++k) {
      const double left = a.data[static_cast<size_t>(r * rank + k)];
      for (int64_t c = 0; c < size.columns; ++c)
        row[static_cast<size_t>(c)] += left * static_cast<double>(right[k * size.columns + c]);
    }
    for (int64_t c = 0; c < size.columns; ++c) {
      float& element = w.data[static_cast<size_t>(r * size.columns + c)];
      element = static_cast<float>(static_cast<double>(element) + scale * row[static_cast<size_t>(c)]);
    }
  }
}

FloatTensor taken(TensorMap& tensors, const std::string& name) {
  const auto at = tensors.find(name);
  if (at == tensors.end()) refuse_adapter(name, "nothing", "both adapters of the matrix");
  FloatTensor tensor = std::move(at->second);
  tensors.erase(at);
  return tensor;
}

}  // namespace

bool has_adapters(const Manifest& manifest, const std::string& matrix) {
  return manifest.tensors.contains(matrix + std::string(kLoraA));
}

bool has_adapters(const Manifest& manifest) {
  return std::ranges::any_of(
      manifest.tensors, [](const auto& tensor) { return tensor.second.is_weight && blocks::is_adapter(tensor.first); });
}

double alpha_of(const Reader& reader) {
  const auto at = reader.manifest().model.find(kAlpha);
  double alpha = 0;
  const std::string text = at == reader.manifest().model.end() ? "" : at->second;
  const bool is_number = std::from_chars(text.data(), text.data() + text.size(), alpha).ec == std::errc();
  MEGACPP_REQUIRE(is_number && has_adapters(reader.manifest()), E1205,
                  {.where = reader.folder().string(),
                   .got = "a checkpoint without adapters",
                   .wanted = "one of a run with lora.rank above 0",
                   .next = "give the run that trained the adapters"});
  return alpha;
}

FloatTensor whole_tensor(const Reader& reader, const std::string& name) {
  const std::vector<std::byte> bytes = reader.read_whole(name, ir::DType::f32);
  FloatTensor tensor{reader.manifest().tensors.at(name).whole.shape, std::vector<float>(bytes.size() / sizeof(float))};
  std::memcpy(tensor.data.data(), bytes.data(), bytes.size());
  return tensor;
}

TensorMap read_adapters(const Reader& reader) {
  alpha_of(reader);
  TensorMap adapters;
  for (const auto& [name, tensor] : reader.manifest().tensors)
    if (tensor.is_weight && blocks::is_adapter(name)) adapters[name] = whole_tensor(reader, name);
  return adapters;
}

void merge_adapters(TensorMap& tensors, double alpha) {
  std::vector<std::string> matrices;
  for (const auto& [name, tensor] : tensors)
    if (blocks::is_adapter(name)) matrices.push_back(name.substr(0, name.size() - kLoraA.size()));
  matrices.erase(std::unique(matrices.begin(), matrices.end()), matrices.end());
  for (const std::string& matrix : matrices) {
    const FloatTensor a = taken(tensors, matrix + std::string(kLoraA)),
                      b = taken(tensors, matrix + std::string(kLoraB));
    const auto w = tensors.find(matrix);
    if (w == tensors.end()) refuse_adapter(matrix, "no such tensor", "the matrix that the adapters stand beside");
    require_pair(matrix, w->second.shape, a.shape, b.shape);
    add_product(w->second, a, b, alpha);
  }
}

FloatTensor read_merged(const Reader& reader, const std::string& matrix) {
  TensorMap tensors;
  for (const std::string& name : {matrix, matrix + std::string(kLoraA), matrix + std::string(kLoraB)})
    if (reader.manifest().tensors.contains(name)) tensors[name] = whole_tensor(reader, name);
  merge_adapters(tensors, alpha_of(reader));
  return std::move(tensors.at(matrix));
}

}  // namespace megacpp::checkpoint
