// SPDX-License-Identifier: Apache-2.0
// Messages between processes: a header alone, or with a text of any length, which travels in as many frames as it
// needs. To one process they go in order; they never wait for tensors. Room is kept, so that messages of a step that is
// like the one before allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/processes/endpoint.h"
#include "megacpp/machine/collectives/processes/frame.h"

namespace megacpp::collectives {

class MessageQueue {
 public:
  explicit MessageQueue(int64_t processes) : queues_(static_cast<size_t>(processes)) {}

  void post(int64_t process, const FrameHeader& header, std::string text = {});
  /// Sends what there is room for; whether anything went.
  bool send(Endpoint& endpoint);
  bool is_empty() const { return waiting_ == 0; }
  /// Forgets what would go to a process that is lost, and what comes later.
  void close(int64_t process);

  /// A frame of a text that has come: the text, once it is whole.
  std::optional<std::string> add(int64_t process, const FrameHeader& header, std::span<const std::byte> bytes);

 private:
  struct Message {
    FrameHeader header;
    std::string text;
    size_t sent = 0;  // bytes of the text
  };
  struct Queue {
    std::vector<Message> messages;
    size_t next = 0;     // those before it are sent
    std::string coming;  // of a text that is not whole yet
    bool is_closed = false;
  };

  bool send_to(int64_t process, Queue& queue, Endpoint& endpoint);

  std::vector<Queue> queues_;  // by process
  int64_t waiting_ = 0;        // messages in all queues
};

}  // namespace megacpp::collectives
