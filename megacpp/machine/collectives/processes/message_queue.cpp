// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/message_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace megacpp::collectives {

void MessageQueue::post(int64_t process, const FrameHeader& header, std::string text) {
  Queue& queue = queues_[static_cast<size_t>(process)];
  if (queue.is_closed) return;
  queue.messages.push_back({.header = header, .text = std::move(text)});
  queue.messages.back().header.total = queue.messages.back().text.size();
  ++waiting_;
}

bool MessageQueue::send(Endpoint& endpoint) {
  bool sent = false;
  for (size_t process = 0; process < queues_.size() && waiting_ > 0; ++process)
    while (send_to(static_cast<int64_t>(process), queues_[process], endpoint)) sent = true;
  return sent;
}

// One frame.
bool MessageQueue::send_to(int64_t process, Queue& queue, Endpoint& endpoint) {
  if (queue.next == queue.messages.size()) return false;
  const std::span<std::byte> room = endpoint.room(process);
  if (room.empty()) return false;
  Message& message = queue.messages[queue.next];
  const size_t bytes = std::min(room.size() - sizeof(FrameHeader), message.text.size() - message.sent);
  message.header.bytes = static_cast<uint32_t>(bytes);
  std::memcpy(room.data(), &message.header, sizeof(FrameHeader));
  if (bytes > 0) std::memcpy(room.data() + sizeof(FrameHeader), message.text.data() + message.sent, bytes);
  endpoint.send(process, sizeof(FrameHeader) + bytes);
  message.sent += bytes;
  if (message.sent < message.text.size()) return true;
  --waiting_;
  if (++queue.next < queue.messages.size()) return true;
  queue.messages.clear();
  queue.next = 0;
  return true;
}

void MessageQueue::close(int64_t process) {
  Queue& queue = queues_[static_cast<size_t>(process)];
  waiting_ -= static_cast<int64_t>(queue.messages.size() - queue.next);
  queue = {};
  queue.is_closed = true;
}

std::optional<std::string> MessageQueue::add(int64_t process, const FrameHeader& header,
                                             std::span<const std::byte> bytes) {
  std::string& coming = queues_[static_cast<size_t>(process)].coming;
  coming.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (coming.size() < header.total) return std::nullopt;
  return std::exchange(coming, {});
}

}  // namespace megacpp::collectives
