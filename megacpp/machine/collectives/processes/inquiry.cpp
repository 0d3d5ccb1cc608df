// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/inquiry.h"

#include <iterator>
#include <sstream>
#include <string_view>

namespace megacpp::collectives {
namespace {

constexpr std::string_view kUnknownCall = "?";  // an answer: the group is not made there yet

void append(std::vector<int64_t>& to, const std::vector<int64_t>& chips) {
  to.insert(to.end(), chips.begin(), chips.end());
}

// Chips that an answer lists: 1 and 3 of "1 3\n; chip 1 waits for nobody; chip 3 ...".
std::vector<int64_t> chips_in(const std::string& answer) {
  std::istringstream numbers(answer.substr(0, answer.find('\n')));
  return {std::istream_iterator<int64_t>(numbers), std::istream_iterator<int64_t>()};
}

}  // namespace

// Also whether the process that decides is there, even where the call needs nothing of it: else its word would be
// waited for.
void Inquiry::ask(EngineLock& lock, const InFlight& call, Waited& waited) {
  CallEngine& engine = parts_.common.engine;
  FrameLoop& loop = parts_.common.loop;
  loop.stop_waiting(call.chip);
  FrameHeader header = {.kind = FrameKind::who_waits, .sequence = call.sequence, .to = -1, .number = questions_++};
  ChipsByProcess asked = awaited_of(call, header);
  std::vector<Answer>& answers = answers_[header.number];
  for (const auto& [process, chips] : asked) loop.post(process, header);
  if (const int64_t arbiter = parts_.liveness.arbiter(); arbiter != parts_.common.map.own && !asked.contains(arbiter)) {
    asked[arbiter] = {};
    loop.post(arbiter, {.kind = FrameKind::who_waits, .to = -1, .number = header.number});
  }
  loop.wake();
  const auto deadline = CallEngine::Clock::now() + answer_limit(engine.wait_limit());
  while (answers.size() < asked.size() && !engine.has_failed() && CallEngine::Clock::now() < deadline)
    parts_.liveness.news.wait_for(lock, kLookAgain);
  for (const Answer& answer : answers) {
    const bool is_known = answer.text != kUnknownCall;
    append(waited.chips, is_known ? chips_in(answer.text) : asked[answer.process]);
    if (is_known) waited.states += answer.text.substr(answer.text.find('\n') + 1);
    asked.erase(answer.process);
  }
  answers_.erase(header.number);
  for (const auto& [process, chips] : asked) {
    append(waited.chips, chips);
    waited.states += "; " + parts_.common.map.name_of(process) + " does not answer";
    parts_.liveness.set_silent(process);
  }
}

Inquiry::ChipsByProcess Inquiry::awaited_of(const InFlight& call, FrameHeader& question) const {
  ChipsByProcess asked;
  if (!call.rendezvous) {
    if (parts_.common.engine.is_local(call.call->peer)) return asked;
    question.to = call.call->peer;
    asked[parts_.common.map.owner(question.to)] = {question.to};
    return asked;
  }
  ExchangeGroup* const group = parts_.exchange.group_of(*call.group);
  if (group == nullptr) return asked;
  question.group = group->id();
  for (size_t other = 0; other < group->others().size(); ++other) {
    if (group->exchange(call.sequence).is_open && group->is_done_with(call.sequence, other)) continue;
    std::vector<int64_t>& chips = asked[group->others()[other].process];
    for (const int64_t index : group->others()[other].members)
      chips.push_back(group->calls().members()[static_cast<size_t>(index)]);
  }
  return asked;
}

void Inquiry::on_question(int64_t process, const FrameHeader& header) {
  FrameHeader answer = header;
  answer.kind = FrameKind::waits;
  parts_.common.loop.post(process, answer, chips_that_wait(header));
}

void Inquiry::on_answer(int64_t process, const FrameHeader& header, const std::string& text) {
  if (const auto question = answers_.find(header.number); question != answers_.end())
    question->second.push_back({process, text});
  parts_.liveness.news.notify_all();
}

// The chips here that the call waits for, as chips_in() has them, and their states.
std::string Inquiry::chips_that_wait(const FrameHeader& question) const {
  std::vector<int64_t> chips;
  if (question.to >= 0) {
    chips = {question.to};
  } else {
    ExchangeGroup* const group = parts_.exchange.group_with(question.group);
    if (group == nullptr) return std::string(kUnknownCall);
    chips = group->chips_behind(question.sequence);
  }
  std::string numbers, states;
  for (const int64_t chip : chips) {
    numbers += (numbers.empty() ? "" : " ") + std::to_string(chip);
    states += "; " + state_text(chip, parts_.common.engine.at(chip).oldest_call());
  }
  return numbers + "\n" + states;
}

}  // namespace megacpp::collectives
