// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"

namespace megacpp::checkpoint {
// Members as the file has them.

struct HashText {
  uint64_t hash;
};
std::string text_of(const HashText& text) { return base::hash_text(text.hash); }
bool read_text(std::string_view digits, HashText& text) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), text.hash, 16);
  return error == std::errc() && end == digits.data() + digits.size() && digits.size() == 16;
}

struct DTypeText {
  ir::DType dtype;
};
std::string text_of(const DTypeText& text) { return std::string(ir::dtype_name(text.dtype)); }
bool read_text(std::string_view name, DTypeText& text) {
  const std::optional<ir::DType> known = ir::parse_dtype(name);
  text.dtype = known.value_or(text.dtype);
  return known && !ir::record(*known).safetensors.empty();
}

enum class SavedRole : uint8_t { weight, optimizer };
constexpr auto words_of(SavedRole /*role*/) {
  return std::to_array<base::Word<SavedRole>>({{SavedRole::weight, "weight"}, {SavedRole::optimizer, "optimizer"}});
}

template <typename Visit, base::Is<Piece> Self>
void visit_fields(const Visit& visit, Self& piece) {
  visit("file", piece.file);
  visit("offset", piece.box.offset);
  visit("shape", piece.box.shape);
  HashText hash{piece.hash};
  visit("xxh64", hash);
  if constexpr (!std::is_const_v<Self>) piece.hash = hash.hash;
}

template <typename Visit, base::Is<SavedTensor> Self>
void visit_fields(const Visit& visit, Self& tensor) {
  DTypeText dtype{tensor.whole.dtype};
  SavedRole role = tensor.is_weight ? SavedRole::weight : SavedRole::optimizer;
  visit("dtype", dtype);
  visit("shape", tensor.whole.shape);
  visit("role", role);
  visit("pieces", tensor.pieces);
  if constexpr (!std::is_const_v<Self>) {
    tensor.whole.dtype = dtype.dtype;
    tensor.is_weight = role == SavedRole::weight;
  }
}

template <typename Visit, base::Is<Manifest> Self>
void visit_fields(const Visit& visit, Self& manifest) {
  visit("step", manifest.position.step);
  visit("samples_consumed", manifest.position.samples_consumed);
  visit("seed", manifest.position.seed);
  visit("optimizer", manifest.optimizer);
  visit("code_version", manifest.code_version);
  visit("model", manifest.model);
  visit("files", manifest.files, "bytes by name");
  visit("tensors", manifest.tensors);
}

namespace {

using base::Json;

constexpr std::string_view kFormat = "megacpp checkpoint 1", kFormatPrefix = "megacpp checkpoint ";
constexpr int kIndent = 1;

[[noreturn]] void refuse_manifest(const std::string& where, std::string got, std::string wanted) {
  base::raise(base::Code::E1204, {.where = where,
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "resume from an older checkpoint of the run, or copy this one again"});
}

const std::string& text_at(const Json& object, const char* name, const std::string& where) {
  const Json* const value = base::find_member(object, name);
  const std::string* const text = value == nullptr ? nullptr : base::as_text(*value);
  if (text == nullptr)
    refuse_manifest(where, fmt::format("'{}' that is no text, or not there", name), "a whole manifest");
  return *text;
}

/// A checkpoint of another version is sound: only its own build reads it.
void require_format(const Json& manifest, const std::string& where) {
  const std::string& format = text_at(manifest, "format", where);
  if (format == kFormat) return;
  if (!format.starts_with(kFormatPrefix))
    refuse_manifest(where, fmt::format("format '{}'", format), std::string(kFormat));
  const Json* const version = base::find_member(manifest, "code_version");
  const std::string* const writer = version == nullptr ? nullptr : base::as_text(*version);
  base::raise(base::Code::E1204, {.where = where,
                                  .got = fmt::format("format '{}'", format),
                                  .wanted = fmt::format("'{}', which this build reads", kFormat),
                                  .next = "use the build that wrote it" + (writer ? ": " + *writer : "")});
}

/// The bytes of a type, or nothing where they do not fit a number.
std::optional<int64_t> checked_bytes(const ir::TensorType& type) {
  int64_t bytes = ir::dtype_bytes(type.dtype);
  for (const int64_t size : type.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

/// Boxes that agree in all dimensions before `d` must cut it into the same or disjoint ranges, one behind the other.
bool tile(std::span<const Box*> boxes, const ir::Shape& whole, size_t d) {
  if (d == whole.size()) return boxes.size() == 1;
  std::ranges::sort(boxes, {}, [d](const Box* box) { return std::pair(box->offset[d], box->shape[d]); });
  int64_t end = 0;
  for (size_t begin = 0; begin < boxes.size();) {
    const Box& first = *boxes[begin];
    if (first.offset[d] != end || first.shape[d] < 1 || first.shape[d] > whole[d] - end) return false;
    size_t next = begin;
    while (next < boxes.size() && boxes[next]->offset[d] == first.offset[d]) {
      if (boxes[next]->shape[d] != first.shape[d]) return false;
      ++next;
    }
    if (!tile(boxes.subspan(begin, next - begin), whole, d + 1)) return false;
    end += first.shape[d];
    begin = next;
  }
  return end == whole[d];
}

bool covers_once(const SavedTensor& tensor) {
  std::vector<const Box*> boxes;
  for (const Piece& piece : tensor.pieces) {
    if (piece.box.offset.size() != tensor.whole.shape.size() || piece.box.shape.size() != tensor.whole.shape.size())
      return false;
    boxes.push_back(&piece.box);
  }
  if (std::ranges::count(tensor.whole.shape, 0) > 0) return boxes.empty();
  return tile(boxes, tensor.whole.shape, 0);
}

std::string tensor_place(const std::string& where, const std::string& tensor) { return where + " tensor " + tensor; }

void require_sizes(const ir::Shape& sizes, const std::string& where) {
  if (std::ranges::any_of(sizes, [](int64_t size) { return size < 0; }))
    refuse_manifest(where, "a size below 0", "0 or more");
}

void check_tensor(const SavedTensor& tensor, const std::map<std::string, int64_t>& files, const std::string& where) {
  require_sizes(tensor.whole.shape, where);
  if (!checked_bytes(tensor.whole)) refuse_manifest(where, "a shape beyond memory", "sizes of a tensor");
  for (const Piece& piece : tensor.pieces) {
    require_sizes(piece.box.offset, where);
    require_sizes(piece.box.shape, where);
    if (!files.contains(piece.file))
      refuse_manifest(where, "a piece in '" + piece.file + "'", "one of the files it lists");
  }
}

// A name leads nowhere but into the checkpoint's own folder.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos && name != kManifestFile;
}

}  // namespace

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors) sum += tensor.whole.bytes();
  return sum;
}

std::string to_text(const Manifest& manifest) {
  Json json = {{"format", kFormat}};
  json.update(base::record_json(manifest));
  const std::string checksum = base::hash_text(base::to_text(json, kIndent));
  json["xxh64"] = checksum;
  return base::to_text(json, kIndent) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  Manifest manifest = parse_part(text, where);
  for (const auto& [name, tensor] : manifest.tensors)
    if (!covers_once(tensor))
      refuse_manifest(tensor_place(where, name), "pieces that overlap, leave gaps or reach beyond the tensor",
                      "each element once, in " + ir::to_string(tensor.whole));
  return manifest;
}

Manifest parse_part(std::string_view text, const std::string& where) {
  Json json = base::parse_json(text, base::Code::E1204, where);
  if (!json.is_object()) refuse_manifest(where, "no object", std::string(kFormat));
  require_format(json, where);
  const std::string checksum = text_at(json, "xxh64", where);
  json.erase("xxh64");
  if (base::hash_text(base::hash_of(base::to_text(json, kIndent))) != checksum)
    refuse_manifest(where, "a text with another checksum", "the manifest as it was written");
  const Manifest manifest = base::whole_record<Manifest>(json, [&](const std::string& path, std::string_view wanted) {
    refuse_manifest(where, fmt::format("{} that is not {}", path, wanted), "a whole manifest");
  });
  const RunPosition& position = manifest.position;
  if (position.step < 0 || position.samples_consumed < 0 || position.seed < 0)
    refuse_manifest(where, "a step, a number of samples or a seed below 0", "0 or more");
  for (const auto& [name, bytes] : manifest.files) {
    if (!is_plain_file_name(name)) refuse_manifest(where, "file '" + name + "'", "a name within the checkpoint");
    if (bytes < 0) refuse_manifest(where, "file '" + name + "' with bytes below 0", "0 or more");
  }
  for (const auto& [name, tensor] : manifest.tensors) check_tensor(tensor, manifest.files, tensor_place(where, name));
  return manifest;
}

}  // namespace megacpp::checkpoint
