// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/word_list.h"

namespace megacpp::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors bytes are used as they stand");

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kAlignment = 8;

[[noreturn]] void refuse(const std::string& where, std::string got, std::string wanted) {
  base::raise(base::Code::E1201, {.where = where,
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "get or write the file again; it is damaged or of another format"});
}

/// "F32, BF16 or F16": those that `takes` takes.
template <typename Takes>
std::string names_of(Takes takes) {
  std::vector<std::string> names;
  for (const StoredType& type : stored_types())
    if (takes(type)) names.emplace_back(type->safetensors);
  return base::any_of_words(names);
}

bool is_real(const StoredType& type) { return type->is_real(); }
bool is_integer(const StoredType& type) { return type->kind == ir::ElementKind::integer; }

/// a * b, or nothing when it does not fit.
std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

/// The list of non-negative integers at `key` of a header entry.
std::vector<int64_t> sizes_at(const base::Json& entry, std::string_view key, const std::string& where) {
  const base::Json* value = base::find_member(entry, key);
  if (value == nullptr || !value->is_array())
    refuse(where, fmt::format("no list '{}'", key), "dtype, shape and data_offsets");
  std::vector<int64_t> sizes;
  for (const base::Json& item : *value) {
    const auto size = base::as_integer(item);
    if (!size || *size < 0) refuse(where, fmt::format("a bad number in '{}'", key), "sizes of 0 or more");
    sizes.push_back(*size);
  }
  return sizes;
}

struct HeaderReader {
  std::string path;
  std::span<const std::byte> data;  // what follows the header

  StoredTensor read_entry(const std::string& name, const base::Json& entry) const {
    const std::string where = path + " tensor " + name;
    const base::Json* type_name = base::find_member(entry, "dtype");
    const std::string* type_text = type_name == nullptr ? nullptr : base::as_text(*type_name);
    if (type_text == nullptr) refuse(where, "no text 'dtype'", "dtype, shape and data_offsets");
    const auto type = stored_type_named(*type_text);
    if (!type) refuse(where, "dtype " + *type_text, names_of([](const StoredType&) { return true; }));
    ir::Shape shape = sizes_at(entry, "shape", where);
    const std::vector<int64_t> offsets = sizes_at(entry, "data_offsets", where);
    const std::span<const std::byte> bytes = slice(offsets, where);
    std::optional<int64_t> needed = (*type)->bytes();
    for (const int64_t size : shape) needed = needed ? product(*needed, size) : needed;
    if (needed != static_cast<int64_t>(bytes.size())) {
      refuse(where, fmt::format("{} bytes for {}{}", bytes.size(), *type_text, ir::to_string(shape)),
             needed ? fmt::format("{} bytes", *needed) : "a shape that fits memory");
    }
    return {.name = name, .type = *type, .shape = std::move(shape), .bytes = bytes};
  }

  std::span<const std::byte> slice(const std::vector<int64_t>& offsets, const std::string& where) const {
    const auto size = static_cast<int64_t>(data.size());
    if (offsets.size() != 2) refuse(where, fmt::format("{} data_offsets", offsets.size()), "begin and end");
    if (offsets[0] > offsets[1] || offsets[1] > size) {
      refuse(where, fmt::format("data_offsets [{}, {}]", offsets[0], offsets[1]),
             fmt::format("a range within the {} bytes of data", size));
    }
    return data.subspan(static_cast<size_t>(offsets[0]), static_cast<size_t>(offsets[1] - offsets[0]));
  }

  Metadata read_metadata(const base::Json& entry) const {
    if (!entry.is_object()) refuse(path, "__metadata__ that is no object", "an object of texts");
    Metadata metadata;
    for (const auto& [key, value] : entry.items()) {
      const std::string* text = base::as_text(value);
      if (text == nullptr) refuse(path, "__metadata__ '" + key + "' that is no text", "an object of texts");
      metadata[key] = *text;
    }
    return metadata;
  }
};

/// Tensors must cover the data end to end: no overlap, no gap, nothing after the last.
void check_coverage(const std::string& path, std::span<const std::byte> data, std::vector<StoredTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  const std::byte* end = data.data();
  for (const StoredTensor& tensor : tensors) {
    if (tensor.bytes.empty()) continue;
    if (tensor.bytes.data() != end) {
      refuse(path + " tensor " + tensor.name,
             tensor.bytes.data() < end ? "data that overlaps another tensor" : "a gap before its data",
             "tensors one after another");
    }
    end = tensor.bytes.data() + tensor.bytes.size();
  }
  const auto rest = data.data() + data.size() - end;
  if (rest != 0) refuse(path, fmt::format("{} bytes after the last tensor", rest), "the end of the file");
}

std::string_view header_of(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) refuse(path, fmt::format("{} bytes", bytes.size()), "a header of at least 8 bytes");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    refuse(path, fmt::format("a header of {} bytes in a file of {}", length, bytes.size()), "a header within the file");
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
}

template <typename T>
T load(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

[[noreturn]] void refuse_type(const StoredTensor& tensor, std::string_view wanted) {
  base::raise(base::Code::E1203, {.where = "tensor " + tensor.name,
                                  .got = std::string(tensor.type->safetensors),
                                  .wanted = std::string(wanted),
                                  .next = "check that the file belongs to this model"});
}

size_t element_count(const StoredTensor& tensor) {
  return tensor.bytes.size() / static_cast<size_t>(tensor.type->bytes());
}

std::string header_text(std::span<const StoredTensor> tensors, const Metadata& metadata) {
  base::Json::object_t header;  // its emplace_back does not look for the name first: there may be many
  if (!metadata.empty()) header.emplace_back("__metadata__", metadata);
  int64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    const auto end = offset + static_cast<int64_t>(tensor.bytes.size());
    header.emplace_back(
        tensor.name,
        base::Json{{"dtype", tensor.type->safetensors}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = base::to_text(base::Json(std::move(header)));
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()), file_(path) {
  file_.read_unchanged([this] { read_header(); });
}

void SafetensorsFile::read_header() {
  const std::string_view text = header_of(path_, file_.bytes());
  const HeaderReader reader{path_, file_.bytes().subspan(kLengthBytes + text.size())};
  const base::Json header = base::parse_json(text, base::Code::E1201, path_ + " header");
  if (!header.is_object())
    refuse(path_, "a header that is no object", "tensor names with dtype, shape and data_offsets");
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = reader.read_metadata(entry);
    } else {
      tensors_.push_back(reader.read_entry(name, entry));
    }
  }
  check_coverage(path_, reader.data, tensors_);
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const StoredTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  MEGACPP_REQUIRE(tensor != nullptr, E1203,
                  {.where = path_,
                   .got = fmt::format("no tensor '{}'", name),
                   .wanted = "a tensor of that name",
                   .next = "check that the file belongs to this model"});
  return *tensor;
}

std::vector<float> to_floats(const StoredTensor& tensor) {
  if (!is_real(tensor.type)) refuse_type(tensor, names_of(is_real));
  std::vector<float> values(element_count(tensor));
  tensor.type->to_f32(tensor.bytes.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

std::vector<std::byte> to_bytes(std::span<const float> values, StoredType type) {
  MEGACPP_CHECK(is_real(type)) << type->safetensors << " is no float type";
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(type->bytes()));
  type->from_f32(values.data(), bytes.data(), static_cast<int64_t>(values.size()));
  return bytes;
}

std::vector<int32_t> to_ints(const StoredTensor& tensor) {
  if (!is_integer(tensor.type)) refuse_type(tensor, names_of(is_integer));
  std::vector<int32_t> values(element_count(tensor));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t value =
        tensor.type == ir::DType::i32 ? load<int32_t>(tensor.bytes, i) : load<int64_t>(tensor.bytes, i);
    if (value != static_cast<int32_t>(value)) refuse_type(tensor, fmt::format("values of 32 bits, not {}", value));
    values[i] = static_cast<int32_t>(value);
  }
  return values;
}

void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const Metadata& metadata) {
  std::vector<StoredTensor> sorted(tensors.begin(), tensors.end());
  std::sort(sorted.begin(), sorted.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(-a.type->bytes(), a.name) < std::pair(-b.type->bytes(), b.name);
  });
  const std::string header = header_text(sorted, metadata);
  const uint64_t length = header.size();
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&length, 1)),
                                                   std::as_bytes(std::span(header.data(), header.size()))};
  for (const StoredTensor& tensor : sorted) {
    MEGACPP_CHECK(!tensor.type->safetensors.empty()) << tensor.name << ": " << tensor.type->name << " is no state";
    const int64_t expected = ir::num_elements(tensor.shape) * tensor.type->bytes();
    MEGACPP_CHECK(static_cast<int64_t>(tensor.bytes.size()) == expected)
        << tensor.name << " " << ir::to_string(tensor.shape);
    parts.push_back(tensor.bytes);
  }
  base::write_file_atomically(path, parts);
}

}  // namespace megacpp::checkpoint
