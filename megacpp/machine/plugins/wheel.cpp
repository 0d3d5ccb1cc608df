// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/wheel.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"

namespace megacpp::runtime::plugins {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = size_t{1} << 20;

bool leads_out(const fs::path& path) {
  return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

class WheelReader {
 public:
  explicit WheelReader(const WheelRequest& request)
      : request_(request), archive_(::archive_read_new(), ::archive_read_free), block_(kBlockBytes) {}

  void unpack() {
    // Only by its directory, which stands at the end: a wheel that was cut off is refused as a whole.
    require(::archive_read_support_format_zip_seekable(archive_.get()));
    require(::archive_read_open_filename(archive_.get(), request_.wheel.c_str(), kBlockBytes));
    for (::archive_entry* entry = nullptr; next(entry);) {
      const char* name = ::archive_entry_pathname(entry);
      if (name == nullptr) continue;  // not of this locale, so none of those wanted
      if (leads_out(name)) refuse(fmt::format("the path '{}', which leads out of it", name));
      if (std::find(request_.entries.begin(), request_.entries.end(), name) != request_.entries.end())
        take(name, entry);
    }
    for (const std::string& wanted : request_.entries)
      if (!taken_.contains(wanted)) refuse("no entry '" + wanted + "'");
  }

 private:
  [[noreturn]] void refuse(const std::string& got) const {
    base::raise(base::Code::E3203, {.where = request_.wheel.string(),
                                    .got = got,
                                    .wanted = fmt::format("a wheel with {}", request_.entries.front()),
                                    .next = "fetch it again, or unzip it and name the library in xla.plugin"});
  }
  [[noreturn]] void refuse_archive() const {
    const char* words = ::archive_error_string(archive_.get());
    refuse(words == nullptr ? "no zip archive" : std::string("no sound zip archive: ") + words);
  }
  void require(int status) const {
    if (status != ARCHIVE_OK) refuse_archive();
  }

  bool next(::archive_entry*& entry) const {
    const int status = ::archive_read_next_header(archive_.get(), &entry);
    if (status == ARCHIVE_EOF) return false;
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) refuse_archive();  // a warning is of names, which are checked
    return true;
  }

  void require_size(const std::string& name, int64_t bytes) const {
    if (bytes > request_.largest_entry) refuse(fmt::format("'{}' of more than {} bytes", name, request_.largest_entry));
  }

  void take(const std::string& name, ::archive_entry* entry) {
    if (!taken_.insert(name).second) refuse("'" + name + "' twice");
    if (::archive_entry_filetype(entry) != AE_IFREG || ::archive_entry_symlink(entry) != nullptr)
      refuse("'" + name + "' that is no plain file");
    require_size(name, ::archive_entry_size(entry));
    const fs::path to = request_.folder / name;
    base::make_folder(to.parent_path());
    std::ofstream file(to, std::ios::binary | std::ios::trunc);
    int64_t size = 0;
    // The last block comes with the verdict on size and checksum, as a warning: any status but OK is damage.
    for (la_ssize_t got; (got = ::archive_read_data(archive_.get(), block_.data(), block_.size())) != 0;) {
      if (got < 0) refuse_archive();
      require_size(name, size += got);
      file.write(block_.data(), got);
      report(got);
    }
    file.close();
    MEGACPP_REQUIRE(!file.fail(), E3001,
                    {.where = to.string(),
                     .got = std::string("cannot write: ") + std::strerror(errno),
                     .wanted = "a file that can be written whole",
                     .next = "check the free space"});
  }

  void report(int64_t bytes) {
    written_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now - reported_ < std::chrono::seconds(1)) return;
    reported_ = now;
    request_.on_progress(written_);
  }

  const WheelRequest& request_;
  std::unique_ptr<::archive, int (*)(::archive*)> archive_;
  std::vector<char> block_;
  std::set<std::string> taken_;
  int64_t written_ = 0;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
};

}  // namespace

void unpack_wheel(const WheelRequest& request) { WheelReader(request).unpack(); }

}  // namespace megacpp::runtime::plugins
