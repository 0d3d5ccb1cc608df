// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/cubin_cache.h"

#include <fmt/format.h>

#include <array>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/plugins/plugin_places.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace megacpp::runtime::cuda {
namespace {

constexpr std::string_view kCubinMagic = "megacpp cubin 1\n";
constexpr size_t kHashLetters = 32;

std::string hash_text(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

// Nothing where the file is not what was kept under this key.
std::optional<std::vector<char>> read_cubin(const std::filesystem::path& file, std::string_view key) {
  std::string bytes;
  try {
    if (!base::exists(file)) return std::nullopt;
    bytes = base::read_file(file);
  } catch (const base::Error&) {
    return std::nullopt;
  }
  const size_t header = kCubinMagic.size() + 2 * kHashLetters;
  if (bytes.size() < header || !bytes.starts_with(kCubinMagic)) return std::nullopt;
  const std::string_view all = bytes, cubin = all.substr(header);
  if (all.substr(kCubinMagic.size(), kHashLetters) != key) return std::nullopt;
  if (all.substr(kCubinMagic.size() + kHashLetters, kHashLetters) != hash_text(cubin)) return std::nullopt;
  return std::vector<char>(cubin.begin(), cubin.end());
}

}  // namespace

std::filesystem::path cubin_folder() {
  const std::filesystem::path folder = plugins::user_cache_folder(plugins::Surroundings::current());
  return folder.empty() ? folder : folder / "cubins";
}

CubinCache::CubinCache(std::filesystem::path folder, std::string compiler)
    : folder_(std::move(folder)), compiler_(std::move(compiler)) {}

// Hashes one after another have fixed lengths, so that no text can pass for another by where it is cut.
std::string CubinCache::key_of(const std::string& source) const {
  return hash_text(hash_text(compiler_) + hash_text(source));
}

std::filesystem::path CubinCache::entry(const std::string& source) const {
  return folder_ / (key_of(source) + ".cubin");
}

std::optional<std::vector<char>> CubinCache::find(const std::string& source) const {
  if (folder_.empty()) return std::nullopt;
  return read_cubin(entry(source), key_of(source));
}

void CubinCache::keep(const std::string& source, const std::vector<char>& cubin) {
  if (folder_.empty() || !is_writable_) return;
  static std::mutex mutex;  // the temporary file is named by process
  const std::lock_guard lock(mutex);
  const std::string header =
      std::string(kCubinMagic) + key_of(source) + hash_text(std::string_view(cubin.data(), cubin.size()));
  const std::array parts = {std::as_bytes(std::span(header)), std::as_bytes(std::span(cubin))};
  try {
    base::make_folder(folder_);
    base::write_file_atomically(entry(source), parts);
  } catch (const base::Error&) {
    is_writable_ = false;
  }
}

}  // namespace megacpp::runtime::cuda
