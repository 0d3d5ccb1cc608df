// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "megacpp/run/train/step_log.h"

namespace megacpp::serve {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kMostLineBytes = 1 << 24;  // a part that is longer is no line of a log

/// A regular file that is read from any place; no link is followed and no pipe is waited for.
class OpenLog {
 public:
  explicit OpenLog(const std::filesystem::path& file)
      : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return;
    is_open_ = true;
    id_ = static_cast<uint64_t>(status.st_ino);
    bytes_ = static_cast<int64_t>(status.st_size);
  }
  ~OpenLog() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenLog(const OpenLog&) = delete;
  OpenLog& operator=(const OpenLog&) = delete;

  bool is_open() const { return is_open_; }
  uint64_t id() const { return id_; }
  int64_t bytes() const { return bytes_; }  // when it was opened

  /// At most `most` bytes from `offset`; fewer at its end, none where it cannot be read.
  std::string read(int64_t offset, size_t most) const {
    std::string text(most, '\0');
    size_t count = 0;
    while (count < most) {
      const ssize_t got = ::pread(fd_, text.data() + count, most - count, offset + static_cast<int64_t>(count));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      count += static_cast<size_t>(got);
    }
    text.resize(count);
    return text;
  }

 private:
  int fd_;
  bool is_open_ = false;
  uint64_t id_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

bool LogTail::follow(const std::filesystem::path& file, const Reader& reader, size_t most_bytes) {
  const OpenLog log(file);
  if (!log.is_open() || log.id() != file_id_ || log.bytes() < offset_) {
    file_id_ = log.id();
    offset_ = 0;
    part_.clear();
    reader.restart();
  }
  if (!log.is_open()) return true;
  for (size_t read = 0; read < most_bytes; read += kChunkBytes) {
    const std::string text = log.read(offset_, kChunkBytes);
    offset_ += static_cast<int64_t>(text.size());
    add_text(text, reader);
    if (text.size() < kChunkBytes) return true;
  }
  return false;
}

void LogTail::add_text(const std::string& text, const Reader& reader) {
  const auto add_line = [&](const std::string& line) {
    if (const std::optional<train::StepReport> report = train::report_of(line)) reader.add(*report);
  };
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    add_line(part_ + text.substr(begin, end - begin));
    part_.clear();
  }
  part_ += text.substr(begin);
  if (part_.size() > kMostLineBytes) part_.clear();
}

std::optional<train::StepReport> last_report(const std::filesystem::path& file) {
  const OpenLog log(file);
  if (!log.is_open()) return std::nullopt;
  const std::string text = log.read(std::max<int64_t>(0, log.bytes() - static_cast<int64_t>(kChunkBytes)), kChunkBytes);
  for (size_t end = text.rfind('\n'); end != std::string::npos;) {
    const size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    if (std::optional<train::StepReport> report = train::report_of(std::string_view(text).substr(begin, end - begin)))
      return report;
    end = before;
  }
  return std::nullopt;
}

}  // namespace megacpp::serve
