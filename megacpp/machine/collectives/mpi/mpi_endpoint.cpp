// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/mpi/mpi_endpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace megacpp::collectives {
namespace {

using std::chrono::microseconds;

constexpr size_t kReceives = 16;
constexpr size_t kSends = 16;
constexpr size_t kSendsToOne = 4;  // a process that does not receive leaves room for the others

using Clock = std::chrono::steady_clock;

// MPI wakes nobody: it is asked, less and less often while nothing happens, so that a sleep lasts a small part of the
// wait. A process has several endpoints, most of them idle, and a machine many processes: those must cost next to
// nothing. Chips that wait ask by themselves, and oftener.
constexpr int64_t kPartOfWait = 8;
constexpr microseconds kShortestNap(100);
constexpr microseconds kLongestNap(20000);

void check_mpi(const MegacppMpi& mpi, int error, const char* call) {
  if (error == 0) return;
  std::array<char, 512> words = {};
  mpi.error_text(error, words.data(), static_cast<int>(words.size()));
  base::raise(base::Code::E3104, {.where = std::string("MPI, ") + call,
                                  .got = words.data(),
                                  .wanted = "messages between the processes of the run",
                                  .next = "look at what the launcher says of its processes and hosts"});
}

class MpiEndpoint final : public Endpoint {
 public:
  MpiEndpoint(const MegacppMpi& mpi, MpiProcess process, int tag)
      : mpi_(mpi), process_(std::move(process)), tag_(tag), receives_(kReceives), sends_(kSends) {
    for (Slot& slot : receives_) {
      prepare(slot);
      check_mpi(mpi_, mpi_.bind_receive(slot.request, slot.bytes.data(), static_cast<int>(kFrameBytes), tag_),
                "receive");
    }
    for (Slot& slot : receives_) check_mpi(mpi_, mpi_.start_receive(slot.request), "receive");
    for (Slot& slot : sends_) prepare(slot);
  }
  ~MpiEndpoint() override {
    for (std::vector<Slot>* const slots : {&receives_, &sends_})
      for (const Slot& slot : *slots)
        if (slot.request != nullptr) mpi_.free_request(slot.request);
  }

  int64_t process() const override { return process_.process; }
  int64_t processes() const override { return process_.processes; }
  std::string host() const override { return process_.host; }

  std::span<std::byte> room(int64_t process) override {
    recycle();
    const auto to_it =
        std::ranges::count_if(sends_, [process](const Slot& slot) { return slot.is_busy && slot.process == process; });
    if (to_it >= static_cast<std::ptrdiff_t>(kSendsToOne)) return {};
    const auto free = std::ranges::find(sends_, false, &Slot::is_busy);
    if (free == sends_.end()) return {};
    given_ = &*free;
    return given_->bytes;
  }

  void send(int64_t process, size_t bytes) override {
    given_->is_busy = true;
    given_->process = process;
    last_event_ = Clock::now();
    check_mpi(
        mpi_,
        mpi_.send(given_->request, given_->bytes.data(), static_cast<int>(bytes), static_cast<int>(process), tag_),
        "send");
  }

  bool is_flushed() override {
    recycle();
    return std::ranges::none_of(sends_, &Slot::is_busy);
  }

  bool poll(Receiver& receiver) override {
    const bool has_received = receive(receiver), has_sent = recycle();
    if (has_received || has_sent) last_event_ = Clock::now();
    return has_received || has_sent;
  }

  void wait(microseconds limit) override {
    const auto quiet = std::chrono::duration_cast<microseconds>(Clock::now() - last_event_.load());
    const microseconds nap = std::min(limit, std::clamp(quiet / kPartOfWait, kShortestNap, kLongestNap));
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, nap, [this] { return is_awake_; });
    is_awake_ = false;
  }

  void wake() override {
    const std::lock_guard lock(mutex_);
    is_awake_ = true;
    woken_.notify_one();
  }

 private:
  struct Slot {
    void* request = nullptr;
    std::vector<std::byte> bytes;
    bool is_busy = false;  // of a send
    int64_t process = 0;   // of a send: to it
  };

  void prepare(Slot& slot) {
    slot.bytes.resize(kFrameBytes);
    slot.request = mpi_.make_request();
    MEGACPP_CHECK(slot.request != nullptr) << "no memory for a request of MPI";
  }

  // Messages of one process are received in the order they were sent by receives in the order they were started: so the
  // oldest is the only one to look at, however many are done.
  bool receive(Receiver& receiver) {
    bool any = false;
    for (size_t i = 0; i < kReceives; ++i) {
      Slot& slot = receives_[oldest_];
      int is_done = 0, process = 0, bytes = 0;
      check_mpi(mpi_, mpi_.test(slot.request, &is_done, &process, &bytes), "receive");
      if (is_done == 0) break;
      any = true;
      oldest_ = (oldest_ + 1) % kReceives;
      receiver.on_frame(process, std::span<const std::byte>(slot.bytes).first(static_cast<size_t>(bytes)));
      check_mpi(mpi_, mpi_.start_receive(slot.request), "receive");
    }
    return any;
  }

  // Whether a send has ended.
  bool recycle() {
    bool any = false;
    for (Slot& slot : sends_) {
      if (!slot.is_busy) continue;
      int is_done = 0, process = 0, bytes = 0;
      check_mpi(mpi_, mpi_.test(slot.request, &is_done, &process, &bytes), "send");
      slot.is_busy = is_done == 0;
      any |= !slot.is_busy;
    }
    return any;
  }

  const MegacppMpi& mpi_;
  const MpiProcess process_;
  const int tag_;
  std::vector<Slot> receives_, sends_;
  size_t oldest_ = 0;      // of the receives
  Slot* given_ = nullptr;  // by room()
  std::atomic<Clock::time_point> last_event_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_awake_ = false;
};

}  // namespace

std::unique_ptr<Endpoint> make_mpi_endpoint(const MegacppMpi& mpi, const MpiProcess& process, int tag) {
  return std::make_unique<MpiEndpoint>(mpi, process, tag);
}

}  // namespace megacpp::collectives
