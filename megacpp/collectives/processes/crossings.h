// SPDX-License-Identifier: Apache-2.0
// What the chips of a process exchange with those of others, over an endpoint. Chips read the buffers of processes on
// their host by themselves (peer_memory.h), and how far they are stands where these look (gate_board.h); to others
// bytes are sent, straight from and to the chips' buffers. Chips that wait send and receive for all; while all compute,
// a thread does. No order of calls leaves processes waiting for each other: bytes are sent only to a call that is
// there.
// - Of a reduction the operands cross, each where it is reduced, and are added there in the order of the group: the
//   same bits as in one process (Sums::exact). Or members of a process are added first, and their sum crosses.
// - Of failures in several processes the one counts that the arbiter, the first process that is alive, hears of first.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/collectives/inproc/local_chips.h"
#include "megacpp/collectives/processes/buffer_addresses.h"
#include "megacpp/collectives/processes/crossing_group.h"
#include "megacpp/collectives/processes/endpoint.h"
#include "megacpp/collectives/processes/mail.h"
#include "megacpp/collectives/processes/peers.h"

namespace megacpp::collectives {

/// Chips that a call waits for, and what they do.
struct Awaited {
  std::vector<int64_t> chips;
  std::string states;  // "; chip 1 waits for nobody"
};

/// Of an agreement that waits for a process.
struct AgreementTimeouts {
  std::chrono::milliseconds limit{};    // of the wait
  std::chrono::milliseconds silence{};  // without a sign of it
};

class Crossings final : private Endpoint::Receiver {
 public:
  /// `owners`: the process of every chip. Begins at once.
  Crossings(LocalChips& chips, std::unique_ptr<Endpoint> endpoint, std::vector<int64_t> owners, Sums sums);
  /// Sends what is left.
  ~Crossings() override;

  /// What every process passes, by process, in rounds that double the distance: log2(processes) letters each.
  std::vector<std::string> gather(const std::string& own, const AgreementTimeouts& timeouts);
  /// As World has it.
  std::optional<std::string> silent_successor(std::chrono::milliseconds limit);
  /// For messages.
  void set_hosts(std::vector<std::string> hosts);
  /// By process: those that read this one's memory, and are read. Before any group.
  void set_neighbours(std::vector<std::optional<Neighbour>> neighbours);
  /// What others need to be neighbours; null where none can be.
  const GateBoard* board() const { return board_.get(); }

  // The rest is called with the lock of the chips held.
  using Lock = LocalChips::Lock;

  void open(GroupCalls& calls);
  /// All local members have posted a call.
  void begin(CrossingGroup& group, int64_t sequence);
  /// All local members have passed so many gates of it.
  void pass(CrossingGroup& group, int64_t sequence, int64_t gates);
  /// A chip has started a send to another process.
  void offer(int64_t chip, const InFlight& send);
  /// Looks for a send from another process that a receive of the chip waits for.
  void match(int64_t chip, int64_t from, int64_t tag);
  /// A receive has read the buffers of its send.
  void take(const InFlight& recv);
  /// Where the buffers of its send are. PeerGone.
  Remote find_remote(const InFlight& recv);
  /// The buffers of a neighbour could not be read: a failure, unless another is heard of that is its cause.
  void break_off(const PeerGone& gone, const Call& call);
  void propose(const Failure& failure);
  /// Whether the process that decides which failure counts did not answer when it was asked.
  bool is_arbiter_silent() const { return is_silent_[static_cast<size_t>(arbiter())]; }
  /// Adds what other processes say about a call that has waited too long. Waits for their answers, not for long.
  void ask(Lock& lock, const InFlight& in_flight, Awaited& awaited);
  /// " in process 1 on node7"; empty for chips of this process.
  std::string place_of(int64_t chip) const;
  /// For whoever sends and receives at the moment.
  void wake();
  /// The chip that sends and receives is about to wait for something else.
  void hand_over();

  /// A chip that waits sends and receives for all chips of its process, as the first of them that does. Nothing has to
  /// be handed to a thread and back then, which takes longer than a message.
  class Driver {
   public:
    Driver(Crossings* crossings, int64_t chip) : crossings_(crossings), chip_(chip) {}
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;
    /// Hands over to another that waits.
    ~Driver();

    /// Whether it is this one.
    bool claim();
    /// Whether anything was sent or had come.
    bool take_turn(Lock& lock);
    /// How long to sleep before the next turn, which is longer the longer nothing has come. At first not at all.
    std::chrono::microseconds pause() const;

   private:
    bool is_driving() const { return crossings_ != nullptr && crossings_->driver_ == chip_; }

    Crossings* const crossings_;  // null: there are no other processes
    const int64_t chip_;
    LocalChips::Clock::time_point last_event_;
  };

 private:
  /// Whether a turn looks for frames.
  enum class Poll : uint8_t {
    if_needed,  // where frames are under way that a call waits for
    always,
  };
  struct Active {
    CrossingGroup* group = nullptr;
    int64_t sequence = 0;
  };
  struct Letter {
    int64_t process = 0;
    FrameHeader header;
  };
  struct Broken {
    int64_t process = 0;
    std::string what;  // " is gone (...) in all_gather ..."
    LocalChips::Clock::time_point since;
  };
  struct Answer {
    int64_t process = 0;
    std::string text;
  };

  void on_frame(int64_t process, std::span<const std::byte> frame) override;
  void on_lost(int64_t process, const std::string& why) override;

  void run();  // the thread
  bool may_close();

  // Of whoever has the turn.
  bool take_turn(Lock& lock, Poll poll);
  bool receive(Lock& lock);
  bool pump(Lock& lock);
  bool advance_exchanges(Lock& lock);
  bool send_data(Lock& lock, const Active& active, size_t other);
  bool is_finished(const Active& active);
  bool send_messages(Lock& lock);
  bool send_message(Lock& lock, const Letter& accepted, InFlight& send);
  void look_for_losses(Lock& lock);
  void deal_with(Lock& lock, const Letter& letter, std::span<const std::byte> bytes);
  void deal_with_text(Lock& lock, const Letter& letter, const std::string& text);
  void on_arrived(const Letter& letter);
  void on_taken(const Letter& letter);
  void on_data(Lock& lock, const Letter& letter, std::span<const std::byte> bytes);
  void on_message(Lock& lock, const Letter& letter, std::span<const std::byte> bytes);
  void on_accept(const Letter& letter);
  void tell_call(const Letter& letter);
  void on_other_call(const FrameHeader& header, const std::string& text);
  std::string who_waits(const FrameHeader& header);

  void send_mail();
  bool needs_thread() const;
  CrossingGroup* group_with(uint64_t id);
  std::string await_gathered(Lock& lock, std::pair<int64_t, int64_t> key, int64_t from,
                             const AgreementTimeouts& timeouts);
  bool is_silent(int64_t process, LocalChips::Clock::time_point since, std::chrono::milliseconds limit);
  int64_t arbiter() const;
  void end_all(const Failure& failure);
  void wake_members(CrossingGroup& group);
  std::vector<int64_t> chips_of(int64_t process) const;
  std::string name_of(int64_t process) const;  // "process 1 on node7 (chips 2, 3)"

  LocalChips& chips_;
  std::unique_ptr<Endpoint> endpoint_;
  const std::vector<int64_t> owners_;
  const Sums sums_;
  std::vector<std::string> hosts_;                    // by process; empty before they are known
  const std::unique_ptr<GateBoard> board_;            // null: this process cannot be read
  std::vector<std::optional<Neighbour>> neighbours_;  // by process
  std::vector<ReadAddresses> read_;                   // the same: of sends from them
  Mail mail_;
  PublishedAddresses offered_;  // of sends to neighbours
  std::deque<CrossingGroup> groups_;
  std::vector<Letter> early_;                         // `arrived` of groups that are not made here yet
  std::vector<Active> active_;                        // calls that are open and not done, in the order of begin()
  std::vector<Letter> offers_;                        // sends from other processes without a receive, oldest first
  std::vector<Letter> sending_;                       // accepted sends
  std::vector<std::optional<std::string>> lost_;      // by process: why
  std::optional<Broken> broken_;                      // the first
  std::vector<bool> is_silent_;                       // by process: asked, and nothing has come since
  std::vector<LocalChips::Clock::time_point> heard_;  // by process: when its last frame came
  std::map<std::pair<int64_t, int64_t>, std::string> gathered_;  // by number of the agreement and round
  std::map<int64_t, std::vector<Answer>> answers_;               // by number of the question
  std::condition_variable news_;                                 // in gathered_, answers_, lost_ or a failure
  int64_t gathers_ = 0;
  int64_t questions_ = 0;
  std::optional<LocalChips::Clock::time_point> failed_at_;  // when the thread has seen it
  bool is_in_turn_ = false;                                 // a thread uses the endpoint
  std::optional<int64_t> driver_;                           // the chip that takes turns
  int64_t turns_ = 0;                                       // of such chips
  std::condition_variable no_driver_;
  bool is_closing_ = false;
  LocalChips::Clock::time_point closing_limit_;
  std::thread thread_;  // ends before what it uses
};

}  // namespace megacpp::collectives
