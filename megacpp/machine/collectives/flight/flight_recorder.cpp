// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/flight/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/utc_time.h"

namespace megacpp::collectives {
namespace {

uint64_t mixed(uint64_t hash, int64_t number) {
  for (int shift = 0; shift < 64; shift += 8)
    hash = (hash ^ (static_cast<uint64_t>(number) >> shift & 0xFF)) * 1099511628211u;
  return hash;
}

constexpr uint64_t kHashStart = 14695981039346656037u;

// Computed from the members alone, so it is the same on each of them.
uint64_t id_of(const std::vector<int64_t>& members) {
  uint64_t hash = kHashStart;
  for (const int64_t member : members) hash = mixed(hash, member);
  return hash;
}

uint64_t id_of_message(int64_t from, int64_t to, int64_t tag) {
  return mixed(mixed(mixed(mixed(kHashStart, -1), from), to), tag);
}

long long bytes_of(const Call& call) {
  int64_t bytes = 0;
  for (const Part& part : call.parts) bytes += ir::num_elements(part.shape) * ir::dtype_bytes(call.dtype);
  return static_cast<long long>(bytes);
}

template <size_t kSize>
void copy_text(const std::string& text, char (&to)[kSize]) {
  const size_t count = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), count);
}

size_t file_size(int64_t chips) {
  const auto count = static_cast<size_t>(chips);
  return sizeof(FlightHead) + count * (sizeof(int64_t) + static_cast<size_t>(kFlightCalls) * sizeof(FlightRow));
}

}  // namespace

/// Used by the thread of its chip alone.
class FlightRecorder::Chip final : public Communicator {
 public:
  Chip(FlightRecorder& recorder, Communicator& inner, FlightRow* rows)
      : recorder_(recorder), inner_(inner), rows_(rows) {}

  int64_t rank() const override { return inner_.rank(); }
  int64_t chips() const override { return inner_.chips(); }
  const Group& create_group(const std::vector<int64_t>& members) override {
    const Group& group = inner_.create_group(members);
    if (!groups_.contains(&group)) groups_[&group] = {.id = id_of(members), .calls = 0};
    return group;
  }
  void reserve_messages(int64_t count) override { inner_.reserve_messages(count); }

  Ticket start(const Call& call, Stream stream) override {
    const int64_t number = begin(call);
    try {
      const Ticket ticket = inner_.start(call, stream);
      tickets_[slot_of(number)] = ticket.number;
      return ticket;
    } catch (...) {
      recorder_.keep();
      throw;
    }
  }

  void finish(Ticket ticket, Stream stream) override {
    try {
      inner_.finish(ticket, stream);
    } catch (...) {
      recorder_.keep();
      throw;
    }
    // Calls in flight are fewer than rows, and the newest are the likeliest.
    for (int64_t number = next_ - 1; number > 0 && number >= next_ - kFlightCalls; --number)
      if (tickets_[slot_of(number)] == ticket.number) {
        rows_[slot_of(number)].finished = base::unix_seconds();
        return;
      }
  }

  void abort(const std::string& reason) override {
    recorder_.keep();
    inner_.abort(reason);
  }

 private:
  struct Counted {
    uint64_t id = 0;
    int64_t calls = 0;
  };

  static size_t slot_of(int64_t number) { return static_cast<size_t>(number % kFlightCalls); }

  // A row that is cut off by the end of the process has no number.
  int64_t begin(const Call& call) {
    const int64_t number = next_++;
    FlightRow& row = rows_[slot_of(number)];
    const std::atomic_ref<int64_t> shown(row.number);
    shown.store(0, std::memory_order_release);
    Counted& counted = counted_as(call);
    row.sequence = counted.calls++;
    row.group = counted.id;
    row.members = is_point_to_point(call.kind) ? 2 : call.group->size();
    row.started = base::unix_seconds();
    row.finished = 0;
    const std::string_view kind = kind_name(call.kind);
    std::snprintf(row.what, sizeof(row.what), "%.*s of %lld bytes in %s", static_cast<int>(kind.size()), kind.data(),
                  bytes_of(call), call.where.c_str());
    shown.store(number, std::memory_order_release);
    return number;
  }

  // Of messages a new pair is one of the first step; after that nothing is allocated.
  Counted& counted_as(const Call& call) {
    if (!is_point_to_point(call.kind)) return groups_.at(call.group);
    const bool sends = call.kind == Kind::send;
    const std::array<int64_t, 3> key = {sends ? rank() : call.peer, sends ? call.peer : rank(), call.tag};
    const auto [at, is_new] = messages_.try_emplace(key);
    if (is_new) at->second.id = id_of_message(key[0], key[1], key[2]);
    return at->second;
  }

  FlightRecorder& recorder_;
  Communicator& inner_;
  FlightRow* const rows_;  // [kFlightCalls]
  int64_t next_ = 1;
  std::array<int64_t, static_cast<size_t>(kFlightCalls)> tickets_ = {};  // by row
  std::map<const Group*, Counted> groups_;
  std::map<std::array<int64_t, 3>, Counted> messages_;  // by sender, receiver and tag
};

FlightRecorder::FlightRecorder(const Options& options) : file_(options.file), chips_(options.chips) {
  const size_t bytes = file_size(options.chips);
  base::make_folder(file_.parent_path());
  const int fd = ::open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) base::fail_writing(file_, "cannot create", errno);
  // All of it at once: memory that a full disk cannot hold would end the process when it is written.
  const int failed = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (failed == 0) mapping_ = base::GuardedMapping(fd, bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
  const int error = failed != 0 ? failed : errno;
  ::close(fd);
  if (mapping_.bytes().empty()) {
    ::unlink(file_.c_str());
    base::fail_writing(file_, "cannot make it in full", error);
  }
  FlightHead head;
  copy_text(kFlightFormat, head.format);
  copy_text(options.host, head.host);
  head.process = options.process;
  head.chips = options.chips;
  std::memcpy(data(), &head, sizeof(head));
  auto* const numbers = reinterpret_cast<int64_t*>(data() + sizeof(FlightHead));
  std::fill_n(numbers, chips_, int64_t{-1});
}

FlightRecorder::~FlightRecorder() {
  if (is_kept_) return;
  ::unlink(file_.c_str());
  ::rmdir(file_.parent_path().c_str());  // the last process of a run takes the folder with it
}

Communicator& FlightRecorder::recorded(Communicator& inner) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<int64_t>(recorded_.size());
  MEGACPP_CHECK(index < chips_) << "a record of " << chips_ << " chips";
  auto* const numbers = reinterpret_cast<int64_t*>(data() + sizeof(FlightHead));
  auto* const rows = reinterpret_cast<FlightRow*>(numbers + chips_);
  numbers[index] = inner.rank();
  recorded_.push_back(std::make_unique<Chip>(*this, inner, rows + index * kFlightCalls));
  return *recorded_.back();
}

std::filesystem::path flight_file(const std::filesystem::path& run, int64_t process) {
  std::array<char, 32> name = {};
  std::snprintf(name.data(), name.size(), "process-%05lld", static_cast<long long>(process));
  return run / kFlightFolder / name.data();
}

}  // namespace megacpp::collectives
