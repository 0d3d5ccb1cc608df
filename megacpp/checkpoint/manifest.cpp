// SPDX-License-Identifier: Apache-2.0
#include "megacpp/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/hash.h"
#include "megacpp/base/json.h"
#include "megacpp/base/word_list.h"

namespace megacpp::checkpoint {
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

/// Typed members of one object of the manifest.
struct ManifestReader {
  const Json& object;
  std::string where;

  const Json& member(std::string_view key) const {
    const Json* value = base::find_member(object, key);
    if (value == nullptr) refuse_manifest(where, fmt::format("no member '{}'", key), "a whole manifest");
    return *value;
  }
  std::string text(std::string_view key) const {
    const std::string* value = base::as_text(member(key));
    if (value == nullptr) refuse_manifest(where, fmt::format("'{}' that is no text", key), "a text");
    return *value;
  }
  int64_t count(std::string_view key) const { return count_of(member(key), key); }
  ir::Shape shape(std::string_view key) const {
    const Json& list = member(key);
    if (!list.is_array()) refuse_manifest(where, fmt::format("'{}' that is no list", key), "a list of sizes");
    ir::Shape sizes;
    for (const Json& item : list) sizes.push_back(count_of(item, key));
    return sizes;
  }
  const Json& members(std::string_view key) const {
    const Json& value = member(key);
    if (!value.is_object()) refuse_manifest(where, fmt::format("'{}' that is no object", key), "an object");
    return value;
  }
  uint64_t hash(std::string_view key) const {
    const std::string digits = text(key);
    uint64_t hash = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.size() != 16)
      refuse_manifest(where, fmt::format("{} '{}'", key, digits), "16 hexadecimal digits");
    return hash;
  }
  int64_t count_of(const Json& value, std::string_view key) const {
    const std::optional<int64_t> count = base::as_integer(value);
    if (!count || *count < 0) refuse_manifest(where, fmt::format("a bad number in '{}'", key), "0 or more");
    return *count;
  }
};

/// What another version wrote is sound: only its own build reads it.
void require_format(const ManifestReader& manifest) {
  const std::string format = manifest.text("format");
  if (format == kFormat) return;
  if (!format.starts_with(kFormatPrefix))
    refuse_manifest(manifest.where, fmt::format("format '{}'", format), std::string(kFormat));
  const Json* const version = base::find_member(manifest.object, "code_version");
  const std::string* const writer = version == nullptr ? nullptr : base::as_text(*version);
  base::raise(base::Code::E1204, {.where = manifest.where,
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

bool may_be_state(const ir::DTypeRecord& dtype) { return !dtype.safetensors.empty(); }

std::vector<std::string> state_types() {
  std::vector<std::string> names;
  for (const ir::DTypeRecord& dtype : ir::all_dtypes())
    if (may_be_state(dtype)) names.emplace_back(dtype.name);
  return names;
}

SavedTensor read_tensor(const ManifestReader& entry, const std::map<std::string, int64_t>& files) {
  SavedTensor tensor;
  const std::string dtype = entry.text("dtype"), role = entry.text("role");
  const std::optional<ir::DType> known = ir::parse_dtype(dtype);
  if (!known || !may_be_state(ir::record(*known)))
    refuse_manifest(entry.where, "dtype " + dtype, base::any_of_words(state_types()));
  tensor.whole = {*known, entry.shape("shape")};
  if (!checked_bytes(tensor.whole)) refuse_manifest(entry.where, "a shape beyond memory", "sizes of a tensor");
  if (role != "weight" && role != "optimizer") refuse_manifest(entry.where, "role " + role, "weight or optimizer");
  tensor.is_weight = role == "weight";
  const Json& pieces = entry.member("pieces");
  if (!pieces.is_array()) refuse_manifest(entry.where, "'pieces' that is no list", "a list");
  for (const Json& item : pieces) {
    const ManifestReader piece{item, entry.where};
    tensor.pieces.push_back({.file = piece.text("file"),
                             .box = {piece.shape("offset"), piece.shape("shape")},
                             .hash = piece.hash("xxh64")});
    if (!files.contains(tensor.pieces.back().file))
      refuse_manifest(entry.where, "a piece in '" + tensor.pieces.back().file + "'", "one of the files it lists");
  }
  return tensor;
}

std::string tensor_place(const std::string& where, const std::string& tensor) { return where + " tensor " + tensor; }

Json tensor_json(const SavedTensor& tensor) {
  Json pieces = Json::array();
  for (const Piece& piece : tensor.pieces)
    pieces.push_back({{"file", piece.file},
                      {"offset", piece.box.offset},
                      {"shape", piece.box.shape},
                      {"xxh64", base::hash_text(piece.hash)}});
  return {{"dtype", ir::dtype_name(tensor.whole.dtype)},
          {"shape", tensor.whole.shape},
          {"role", tensor.is_weight ? "weight" : "optimizer"},
          {"pieces", std::move(pieces)}};
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
  Json::object_t tensors;  // its emplace_back does not look for the name first: there may be many
  for (const auto& [name, tensor] : manifest.tensors) tensors.emplace_back(name, tensor_json(tensor));
  Json json = {{"format", kFormat},
               {"step", manifest.position.step},
               {"samples_consumed", manifest.position.samples_consumed},
               {"seed", manifest.position.seed},
               {"optimizer", manifest.optimizer},
               {"code_version", manifest.code_version}};
  json["model"] = manifest.model;
  json["files"] = manifest.files;
  json["tensors"] = Json(std::move(tensors));
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
  const ManifestReader reader{json, where};
  if (!json.is_object()) refuse_manifest(where, "no object", std::string(kFormat));
  require_format(reader);
  const uint64_t checksum = reader.hash("xxh64");
  json.erase("xxh64");
  if (base::hash_of(base::to_text(json, kIndent)) != checksum)
    refuse_manifest(where, "a text with another checksum", "the manifest as it was written");
  Manifest manifest{.position = {.step = reader.count("step"),
                                 .samples_consumed = reader.count("samples_consumed"),
                                 .seed = reader.count("seed")},
                    .optimizer = reader.text("optimizer"),
                    .model = {},
                    .code_version = reader.text("code_version"),
                    .files = {},
                    .tensors = {}};
  const ManifestReader model{reader.members("model"), where + " model"}, files{reader.members("files"), where};
  for (const auto& [key, value] : model.object.items()) manifest.model[key] = model.text(key);
  for (const auto& [name, bytes] : files.object.items()) {
    if (!is_plain_file_name(name)) refuse_manifest(where, "file '" + name + "'", "a name within the checkpoint");
    manifest.files[name] = files.count_of(bytes, name);
  }
  for (const auto& [name, entry] : reader.members("tensors").items())
    manifest.tensors[name] = read_tensor({entry, tensor_place(where, name)}, manifest.files);
  return manifest;
}

}  // namespace megacpp::checkpoint
