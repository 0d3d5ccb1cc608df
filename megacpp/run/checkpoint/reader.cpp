// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"

namespace megacpp::checkpoint {
namespace {

[[noreturn]] void refuse_file(const std::filesystem::path& file, std::string got, std::string wanted) {
  base::raise(base::Code::E1204,
              {.where = file.string(),
               .got = std::move(got),
               .wanted = std::move(wanted),
               .next = "megacpp checkpoint verify lists all that is wrong; resume from an older checkpoint of the run: "
                       "megacpp train --resume RUN/checkpoints/step-N"});
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kManifestFile;
  std::error_code ignored;
  MEGACPP_REQUIRE(std::filesystem::exists(file, ignored), E1206,
                  {.where = folder.string(),
                   .got = "no manifest.json",
                   .wanted = "the folder of a checkpoint",
                   .next = "give a folder such as runs/latest/checkpoints/latest"});
  return parse_manifest(base::read_file(file), file.string());
}

void check_size(const std::filesystem::path& file, int64_t wanted) {
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, error));
  if (error) refuse_file(file, error.message(), "a file of the checkpoint");
  if (size != wanted) refuse_file(file, fmt::format("{} bytes", size), fmt::format("{} bytes", wanted));
}

SafetensorsFile open_file(const std::filesystem::path& file) {
  try {
    return SafetensorsFile(file);
  } catch (const base::Error& error) {
    refuse_file(file, error.problem().got, "a safetensors file");
  }
}

std::vector<std::byte> converted(std::span<const std::byte> from, const ir::DTypeRecord& from_type,
                                 const ir::DTypeRecord& to_type) {
  constexpr int64_t kTile = 4096;
  const auto count = static_cast<int64_t>(from.size()) / from_type.bytes();
  std::vector<float> numbers(static_cast<size_t>(std::min(kTile, count)));
  std::vector<std::byte> to(static_cast<size_t>(count * to_type.bytes()));
  for (int64_t first = 0; first < count; first += kTile) {
    const int64_t size = std::min(kTile, count - first);
    from_type.to_f32(from.data() + first * from_type.bytes(), numbers.data(), size);
    to_type.from_f32(numbers.data(), to.data() + first * to_type.bytes(), size);
  }
  return to;
}

bool overlaps(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (a.offset[d] + a.shape[d] <= b.offset[d] || b.offset[d] + b.shape[d] <= a.offset[d]) return false;
  return true;
}

}  // namespace

Reader::Reader(const std::filesystem::path& folder) : folder_(folder), manifest_(read_manifest(folder)) {
  size_t pieces = 0;
  for (const auto& [name, bytes] : manifest_.files) {
    check_size(folder / name, bytes);
    files_.emplace(name, open_file(folder / name));
  }
  for (const auto& [name, tensor] : manifest_.tensors)
    for (const Piece& piece : tensor.pieces) {
      const SafetensorsFile& file = files_.at(piece.file);
      if (!file.contains(name)) refuse_file(folder / piece.file, "no tensor " + name, "what the manifest lists");
      const StoredTensor& stored = file.at(name);
      if (stored.shape != piece.box.shape || stored.type != tensor.whole.dtype)
        refuse_file(folder / piece.file, name + " of shape " + ir::to_string(stored.shape),
                    fmt::format("{}{}", ir::dtype_name(tensor.whole.dtype), ir::to_string(piece.box.shape)));
      ++pieces;
    }
  size_t stored = 0;
  for (const auto& [name, file] : files_) stored += file.tensors().size();
  if (stored != pieces)
    refuse_file(folder, fmt::format("{} tensors in its files", stored), fmt::format("{} as listed", pieces));
}

std::span<const std::byte> Reader::checked_bytes(const std::string& tensor, const Piece& piece) const {
  const std::span<const std::byte> bytes = files_.at(piece.file).at(tensor).bytes;
  bytes_checked_ += static_cast<int64_t>(bytes.size());
  const uint64_t hash = base::hash_of(bytes);
  require_unchanged(piece.file);
  if (hash != piece.hash)
    refuse_file(folder_ / piece.file, fmt::format("{} with checksum {:016x}", tensor, hash),
                fmt::format("{:016x}, as it was written", piece.hash));
  return bytes;
}

void Reader::require_unchanged(const std::string& file) const {
  try {
    files_.at(file).require_unchanged();
  } catch (const base::Error& error) {
    refuse_file(folder_ / file, error.problem().got, error.problem().wanted);
  }
}

void Reader::read(const std::string& tensor, ir::DType dtype, std::span<const BoxBytes<std::byte>> boxes) const {
  const SavedTensor& saved = manifest_.tensors.at(tensor);
  const bool is_same = dtype == saved.whole.dtype;
  MEGACPP_CHECK(is_same || (ir::is_float(dtype) && ir::is_float(saved.whole.dtype))) << tensor;
  for (const Piece& piece : saved.pieces) {
    const auto takes = [&](const BoxBytes<std::byte>& box) { return overlaps(piece.box, box.box); };
    if (std::ranges::none_of(boxes, takes)) continue;
    std::span<const std::byte> from = checked_bytes(tensor, piece);
    std::vector<std::byte> other;
    if (!is_same) from = other = converted(from, ir::record(saved.whole.dtype), ir::record(dtype));
    for (const BoxBytes<std::byte>& box : boxes) {
      const int64_t copied = copy_overlap({piece.box, piece.box.shape, from}, box, ir::dtype_bytes(dtype));
      bytes_copied_ += copied / ir::dtype_bytes(dtype) * ir::dtype_bytes(saved.whole.dtype);
    }
    require_unchanged(piece.file);  // since its checksum was compared
  }
}

std::vector<std::byte> Reader::read_whole(const std::string& tensor, ir::DType dtype) const {
  const ir::Shape& shape = manifest_.tensors.at(tensor).whole.shape;
  const Box all{ir::Shape(shape.size(), 0), shape};
  std::vector<std::byte> bytes(static_cast<size_t>(all.elements() * ir::dtype_bytes(dtype)));
  const BoxBytes<std::byte> whole{all, shape, bytes};
  read(tensor, dtype, std::span(&whole, 1));
  return bytes;
}

std::vector<std::string> verify(const std::filesystem::path& folder) {
  std::vector<std::string> problems;
  try {
    const Reader reader(folder);
    for (const auto& [name, tensor] : reader.manifest().tensors)
      for (const Piece& piece : tensor.pieces) try {
          reader.check(name, piece);
        } catch (const base::Error& error) {
          problems.push_back(fmt::format("{}: {}", error.problem().where, error.problem().got));
        }
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1204) throw;
    problems.push_back(fmt::format("{}: {}", error.problem().where, error.problem().got));
  }
  return problems;
}

}  // namespace megacpp::checkpoint
