// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/mail.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace megacpp::collectives {

void Mail::post(int64_t process, const FrameHeader& header, std::string text) {
  Box& box = boxes_[static_cast<size_t>(process)];
  if (box.is_closed) return;
  box.letters.push_back({.header = header, .text = std::move(text)});
  box.letters.back().header.total = box.letters.back().text.size();
  ++waiting_;
}

bool Mail::send(Endpoint& endpoint) {
  bool sent = false;
  for (size_t process = 0; process < boxes_.size() && waiting_ > 0; ++process)
    while (send_to(static_cast<int64_t>(process), boxes_[process], endpoint)) sent = true;
  return sent;
}

// One frame.
bool Mail::send_to(int64_t process, Box& box, Endpoint& endpoint) {
  if (box.next == box.letters.size()) return false;
  const std::span<std::byte> room = endpoint.room(process);
  if (room.empty()) return false;
  Letter& letter = box.letters[box.next];
  const size_t bytes = std::min(room.size() - sizeof(FrameHeader), letter.text.size() - letter.sent);
  letter.header.bytes = static_cast<uint32_t>(bytes);
  std::memcpy(room.data(), &letter.header, sizeof(FrameHeader));
  if (bytes > 0) std::memcpy(room.data() + sizeof(FrameHeader), letter.text.data() + letter.sent, bytes);
  endpoint.send(process, sizeof(FrameHeader) + bytes);
  letter.sent += bytes;
  if (letter.sent < letter.text.size()) return true;
  --waiting_;
  if (++box.next < box.letters.size()) return true;
  box.letters.clear();
  box.next = 0;
  return true;
}

void Mail::close(int64_t process) {
  Box& box = boxes_[static_cast<size_t>(process)];
  waiting_ -= static_cast<int64_t>(box.letters.size() - box.next);
  box = {};
  box.is_closed = true;
}

std::optional<std::string> Mail::add(int64_t process, const FrameHeader& header, std::span<const std::byte> bytes) {
  std::string& coming = boxes_[static_cast<size_t>(process)].coming;
  coming.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (coming.size() < header.total) return std::nullopt;
  return std::exchange(coming, {});
}

}  // namespace megacpp::collectives
