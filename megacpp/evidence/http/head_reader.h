// SPDX-License-Identifier: Apache-2.0
// Reads the heads of requests, those of all clients on one thread: who sends half of one keeps no thread of his own,
// and nobody waits behind him. Clients that have not sent theirs yet are bounded, in all and for each address. Where
// one too many comes, the one that has waited longest is cut off.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace megacpp::http {

class HeadReader {
 public:
  struct Limits {
    std::chrono::milliseconds time;  // for a head
    size_t bytes;                    // of a head
    size_t most;                     // clients that may wait at once
    size_t most_of_address;          // of these
  };
  /// Takes over the socket of a client, with what it has sent: a whole head, or all that came before its time, its
  /// bytes or its connection ended. Called by run(), and may not wait.
  using OnHead = std::function<void(int socket, std::string head)>;

  using Address = std::array<char, 16>;  // of a client, as its family has it

  /// E3002 where the system gives no file to wake it by.
  HeadReader(const Limits& limits, OnHead on_head);
  /// Cuts off who still waits. Nothing runs then.
  ~HeadReader();
  HeadReader(const HeadReader&) = delete;
  HeadReader& operator=(const HeadReader&) = delete;

  /// Reads until it is stopped.
  void run();
  /// Takes over the socket. On any thread, as stop().
  void add(int socket);
  void stop();

 private:
  struct Client {
    int socket;
    Address address;
    std::chrono::steady_clock::time_point end;  // of its time
    std::string head = {};
  };
  enum class Progress : uint8_t { waits, is_done };

  void wait();
  void admit_new();
  void admit(Client client);
  /// Cuts off the client that has waited longest, of one address or of all.
  void make_room(const Address& address);
  void read_from_all();
  /// Reads what has come, without waiting.
  Progress receive(Client& client) const;
  /// The same. Of a client that is done the socket is handed on or closed.
  Progress read_from(Client& client);
  void hand_on(Client& client);

  const Limits limits_;
  const OnHead on_head_;
  const int wake_;  // an eventfd
  std::mutex mutex_;
  std::vector<int> new_;  // sockets that were added
  std::atomic<bool> is_stopping_ = false;
  std::vector<Client> clients_;  // run()'s own, in the order of their arrival
  std::vector<pollfd> polled_;
};

}  // namespace megacpp::http
