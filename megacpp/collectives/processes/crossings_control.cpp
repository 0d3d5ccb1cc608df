// SPDX-License-Identifier: Apache-2.0
// Of Crossings: what processes say to each other beside tensors. Agreements, failures, and who waits for whom.
#include <algorithm>
#include <charconv>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/collectives/long_wait.h"
#include "megacpp/collectives/processes/crossings.h"
#include "megacpp/collectives/processes/gather_rounds.h"

namespace megacpp::collectives {
namespace {

constexpr std::chrono::milliseconds kLookAgain(20);  // at failures, while nothing comes

// For a process to say who waits there: long enough for one that is busy, no longer than a user would look at it, and
// little beside the wait before it.
std::chrono::milliseconds answer_limit(std::chrono::milliseconds wait_limit) {
  constexpr std::chrono::milliseconds kLeast(1000), kMost(2000);
  return std::min(4 * wait_limit, std::clamp(wait_limit / 5, kLeast, kMost));
}

// A process that ends takes its memory with it, and has said why before: for its words to come.
constexpr std::chrono::seconds kBrokenLimit(1);

constexpr int kQuestionsInASilence = 4;  // to a process that is waited for

std::string waited_for(std::chrono::milliseconds time, const std::string& whom) {
  return "waited " + std::to_string(time.count()) + " ms for " + whom;
}

// Whoever listens may take its time: frames are dealt with meanwhile.
void say_long_wait(LocalChips::Lock& lock, LocalChips::Clock::duration waited, const std::string& whom) {
  lock.unlock();
  tell_long_wait(
      {.waited = std::chrono::duration_cast<std::chrono::milliseconds>(waited), .whom = whom + ", which answers"});
  lock.lock();
}

constexpr std::string_view kUnknownCall = "?";  // an answer: the group is not made there yet

int64_t take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  MEGACPP_CHECK(error == std::errc()) << "no number at the head of: " << text;
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);  // and what ends it
  return number;
}

std::string failure_text(const Failure& failure) { return std::to_string(failure.chip) + "\n" + failure.reason; }

Failure failure_of(std::string_view text) {
  const int64_t chip = take_number(text);
  return {chip, std::string(text)};
}

// Each behind its length.
std::string packed(const std::vector<std::string>& blocks, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const std::string& block = blocks[static_cast<size_t>(i)];
    text += std::to_string(block.size()) + ":" + block;
  }
  return text;
}

void append_unpacked(std::string_view text, std::vector<std::string>& blocks) {
  while (!text.empty()) {
    const auto size = static_cast<size_t>(take_number(text));
    MEGACPP_CHECK(size <= text.size()) << "an agreement that is cut off";
    blocks.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
}

}  // namespace

void Crossings::set_hosts(std::vector<std::string> hosts) {
  const Lock lock(chips_.mutex);
  hosts_ = std::move(hosts);
}

std::vector<std::string> Crossings::gather(const std::string& own, const AgreementTimeouts& timeouts) {
  Lock lock(chips_.mutex);
  const int64_t count = endpoint_->processes(), me = endpoint_->process(), number = gathers_++;
  std::vector<std::string> blocks = {own};
  int64_t round = 0;
  chips_.check_alive(lock, chips_.local().front(), "agreement of all processes");
  for (const GatherRound& each : gather_rounds(count)) {
    mail_.post((me + each.distance) % count, {.kind = FrameKind::gather, .sequence = number, .number = round},
               packed(blocks, each.blocks));
    wake();
    const int64_t from = (me - each.distance + count) % count;
    append_unpacked(await_gathered(lock, {number, round}, from, timeouts), blocks);
    ++round;
  }
  MEGACPP_CHECK(static_cast<int64_t>(blocks.size()) == count) << blocks.size() << " statements of " << count;
  std::vector<std::string> by_process(blocks.size());
  for (int64_t i = 0; i < count; ++i)
    by_process[static_cast<size_t>((me - i + count) % count)] = std::move(blocks[static_cast<size_t>(i)]);
  return by_process;
}

std::string Crossings::await_gathered(Lock& lock, std::pair<int64_t, int64_t> key, int64_t from,
                                      const AgreementTimeouts& timeouts) {
  const int64_t chip = chips_.local().front();
  const std::string where = "agreement of all processes";
  // In the first round a process waits for one that has not come at all. Later it may wait for one that waits itself:
  // it leaves the word to who knows.
  const bool is_first_round = key.second == 0;
  const auto limit = timeouts.limit + (is_first_round ? 1 : 2) * answer_limit(timeouts.limit);
  const auto begin = LocalChips::Clock::now();
  auto question = begin + timeouts.silence / kQuestionsInASilence, line = begin + timeouts.silence;
  std::string waited;
  while (waited.empty()) {
    chips_.check_alive(lock, chip, where);
    if (const auto found = gathered_.find(key); found != gathered_.end()) {
      std::string text = std::move(found->second);
      gathered_.erase(found);
      return text;
    }
    const auto& lost = lost_[static_cast<size_t>(from)];
    if (lost) {
      chips_.fail(lock, {chips_of(from).front(), name_of(from) + " is gone (" + *lost + ") in an agreement"});
      continue;
    }
    // One that answers waits for another itself: who waits for the one that does not has the word.
    const auto now = LocalChips::Clock::now();
    if (is_silent(from, begin, timeouts.silence))
      waited = waited_for(timeouts.silence, name_of(from)) + ", which does not answer";
    else if (now - begin >= limit)
      waited = waited_for(timeouts.limit, name_of(from));
    else if (is_first_round && now >= line && now - begin < timeouts.limit) {
      line = now + timeouts.silence;
      say_long_wait(lock, now - begin, name_of(from));
    } else if (now >= question) {
      mail_.post(from, {.kind = FrameKind::who_waits, .to = -1, .number = questions_++});  // any answer will do
      wake();
      question = now + timeouts.silence / kQuestionsInASilence;
    } else {
      news_.wait_for(lock, kLookAgain);
    }
  }
  chips_.fail(lock, {chip, waited + ": " + where});
  base::raise(base::Code::E3102,
              {.where = chip_text(chip) + ", " + where,
               .got = waited,
               .wanted = "every process at the agreement",
               .next = "look at that process: it computes, hangs, or waits for another itself; raise train.wait_limit "
                       "if it is only slow"});
}

std::optional<std::string> Crossings::silent_successor(std::chrono::milliseconds limit) {
  Lock lock(chips_.mutex);
  const int64_t next = (endpoint_->process() + 1) % endpoint_->processes();
  if (next == endpoint_->process()) return std::nullopt;
  const auto begin = LocalChips::Clock::now();
  mail_.post(next, {.kind = FrameKind::who_waits, .to = -1, .number = questions_++});  // any answer will do
  wake();
  while (!chips_.has_failed() && heard_[static_cast<size_t>(next)] < begin) {
    if (LocalChips::Clock::now() - begin >= limit) return name_of(next);
    news_.wait_for(lock, kLookAgain);
  }
  return std::nullopt;
}

bool Crossings::is_silent(int64_t process, LocalChips::Clock::time_point since, std::chrono::milliseconds limit) {
  return LocalChips::Clock::now() - std::max(heard_[static_cast<size_t>(process)], since) >= limit;
}

void Crossings::propose(const Failure& failure) {
  if (arbiter() == endpoint_->process())
    end_all(failure);
  else
    mail_.post(arbiter(), {.kind = FrameKind::failed}, failure_text(failure));
  wake();
}

void Crossings::end_all(const Failure& failure) {
  if (chips_.is_decided()) return;
  chips_.decide(failure);
  for (int64_t process = 0; process < endpoint_->processes(); ++process)
    if (process != endpoint_->process()) mail_.post(process, {.kind = FrameKind::is_over}, failure_text(failure));
}

int64_t Crossings::arbiter() const {
  return std::ranges::find_if(lost_, [](const auto& lost) { return !lost; }) - lost_.begin();
}

void Crossings::on_lost(int64_t process, const std::string& why) {
  const Lock lock(chips_.mutex);
  lost_[static_cast<size_t>(process)] = why;
  mail_.close(process);
  news_.notify_all();
}

// A process that has gone is a failure where something is still wanted of it, and none at the end of a run.
void Crossings::look_for_losses(Lock& lock) {
  if (broken_ && !chips_.has_failed() && LocalChips::Clock::now() - broken_->since >= kBrokenLimit)
    chips_.fail(lock, {chips_of(broken_->process).front(), name_of(broken_->process) + broken_->what});
  for (int64_t process = 0; process < endpoint_->processes(); ++process) {
    const std::optional<std::string> lost = lost_[static_cast<size_t>(process)];
    if (!lost || chips_.has_failed()) continue;
    const std::vector<int64_t> its_chips = chips_of(process);
    std::string call;
    for (const Active& active : active_) {
      const auto& others = active.group->others();
      const auto other = std::ranges::find(others, process, &CrossingGroup::Other::process);
      if (other == others.end()) continue;
      if (active.group->is_done_with(active.sequence, static_cast<size_t>(other - others.begin()))) continue;
      call = to_string(*active.group->calls().rendezvous(active.sequence).posted());
      break;
    }
    if (const InFlight* const message = chips_.oldest_message_with(its_chips); call.empty() && message != nullptr)
      call = to_string(*message->call);
    if (!call.empty()) chips_.fail(lock, {its_chips.front(), name_of(process) + " is gone (" + *lost + ") in " + call});
  }
}

void Crossings::deal_with_text(Lock& lock, const Letter& letter, const std::string& text) {
  switch (letter.header.kind) {
    case FrameKind::gather:
      gathered_[{letter.header.sequence, letter.header.number}] = text;
      return news_.notify_all();
    case FrameKind::waits:
      if (const auto question = answers_.find(letter.header.number); question != answers_.end())
        question->second.push_back({letter.process, text});
      return news_.notify_all();
    case FrameKind::failed:
      return chips_.fail(lock, failure_of(text));
    case FrameKind::is_over:
      return chips_.decide(failure_of(text));
    case FrameKind::other_call:
      return on_other_call(letter.header, text);
    default:
      MEGACPP_CHECK(false) << "a text of unknown kind";
  }
}

// To a process that has another movement there.
void Crossings::tell_call(const Letter& letter) {
  FrameHeader answer = letter.header;
  answer.kind = FrameKind::other_call;
  int64_t chip = letter.header.from;
  const Call* call = nullptr;
  if (chip >= 0) {
    if (const InFlight* const send = chips_.in_flight(chip, letter.header.sequence)) call = send->call;
  } else if (CrossingGroup* const group = group_with(letter.header.group)) {
    chip = group->calls().members()[static_cast<size_t>(group->calls().local().front())];
    call = group->calls().rendezvous(letter.header.sequence).posted();
  }
  MEGACPP_CHECK(call != nullptr) << "asked for a call that is not there";
  mail_.post(letter.process, answer, chip_text(chip) + ": " + to_string(*call));
}

void Crossings::on_other_call(const FrameHeader& header, const std::string& text) {
  if (header.from >= 0) {
    InFlight* const recv = chips_.in_flight(header.to, header.number);
    if (recv == nullptr) return;
    recv->other_call = text;
    return chips_.wake(header.to);
  }
  CrossingGroup* const group = group_with(header.group);
  MEGACPP_CHECK(group != nullptr) << "told of a group that is not there";
  group->exchange(header.sequence).other_call = text;
  wake_members(*group);
}

// "1 3\n; chip 1 waits for nobody; chip 3 ...": the chips here that the call waits for.
std::string Crossings::who_waits(const FrameHeader& header) {
  std::vector<int64_t> chips;
  if (header.to >= 0) {
    chips = {header.to};
  } else {
    CrossingGroup* const group = group_with(header.group);
    if (group == nullptr) return std::string(kUnknownCall);
    const Rendezvous& rendezvous = group->calls().rendezvous(header.sequence);
    const std::vector<int64_t>& local = group->calls().local();
    int64_t most = 1;  // gates passed by those who are furthest; others wait for whoever has passed fewer
    for (const int64_t index : local) most = std::max(most, rendezvous.gates_passed(index));
    // Or for one whose next step needs nobody else.
    const auto is_due = [&](int64_t index) {
      return rendezvous.is_step_due(index) && group->may_step(header.sequence, rendezvous.gates_passed(index));
    };
    for (const int64_t index : local)
      if (rendezvous.gates_passed(index) < most || is_due(index))
        chips.push_back(group->calls().members()[static_cast<size_t>(index)]);
  }
  std::string numbers, states;
  for (const int64_t chip : chips) {
    numbers += (numbers.empty() ? "" : " ") + std::to_string(chip);
    states += "; " + chips_.what_it_does(chip);
  }
  return numbers + "\n" + states;
}

void Crossings::ask(Lock& lock, const InFlight& in_flight, Awaited& awaited) {
  hand_over();
  const int64_t question = questions_++;
  std::map<int64_t, std::vector<int64_t>> asked;  // by process: all its chips that may be meant
  FrameHeader header = {.kind = FrameKind::who_waits, .sequence = in_flight.sequence, .to = -1, .number = question};
  if (in_flight.rendezvous && in_flight.group->crossing) {
    CrossingGroup& group = *in_flight.group->crossing;
    header.group = group.id();
    for (size_t other = 0; other < group.others().size(); ++other) {
      if (group.exchange(in_flight.sequence).is_open && group.is_done_with(in_flight.sequence, other)) continue;
      std::vector<int64_t>& chips = asked[group.others()[other].process];
      for (const int64_t index : group.others()[other].members)
        chips.push_back(group.calls().members()[static_cast<size_t>(index)]);
    }
  } else if (!in_flight.rendezvous && !chips_.is_local(in_flight.call->peer)) {
    header.to = in_flight.call->peer;
    asked[owners_[static_cast<size_t>(header.to)]] = {header.to};
  }
  answers_[question] = {};
  for (const auto& [process, chips] : asked) mail_.post(process, header);
  // Whether the one that decides is there, even where the call needs nothing of it: else its word would be waited for.
  if (arbiter() != endpoint_->process() && !asked.contains(arbiter())) {
    asked[arbiter()] = {};
    mail_.post(arbiter(), {.kind = FrameKind::who_waits, .to = -1, .number = question});
  }
  wake();
  const auto deadline = LocalChips::Clock::now() + answer_limit(chips_.wait_limit());
  while (answers_[question].size() < asked.size() && !chips_.has_failed() && LocalChips::Clock::now() < deadline)
    news_.wait_for(lock, kLookAgain);
  for (const Answer& answer : answers_[question]) {
    std::vector<int64_t>& chips = asked[answer.process];
    if (answer.text != kUnknownCall) {
      std::string_view text = answer.text;
      chips.clear();
      while (!text.empty() && text.front() != '\n' && text.front() != ';') chips.push_back(take_number(text));
      if (!text.empty() && text.front() == '\n') text.remove_prefix(1);
      awaited.states += text;
    }
    awaited.chips.insert(awaited.chips.end(), chips.begin(), chips.end());
    asked.erase(answer.process);
  }
  answers_.erase(question);
  for (const auto& [process, chips] : asked) {
    awaited.chips.insert(awaited.chips.end(), chips.begin(), chips.end());
    awaited.states += "; " + name_of(process) + " does not answer";
    is_silent_[static_cast<size_t>(process)] = true;
  }
}

std::vector<int64_t> Crossings::chips_of(int64_t process) const {
  std::vector<int64_t> chips;
  for (size_t chip = 0; chip < owners_.size(); ++chip)
    if (owners_[chip] == process) chips.push_back(static_cast<int64_t>(chip));
  return chips;
}

std::string Crossings::name_of(int64_t process) const {
  const std::string host = hosts_.empty() ? "" : " on " + hosts_[static_cast<size_t>(process)];
  return "process " + std::to_string(process) + host + " (" + chips_text(chips_of(process)) + ")";
}

std::string Crossings::place_of(int64_t chip) const {
  const int64_t process = owners_[static_cast<size_t>(chip)];
  if (process == endpoint_->process()) return "";
  const std::string host = hosts_.empty() ? "" : " on " + hosts_[static_cast<size_t>(process)];
  return " in process " + std::to_string(process) + host;
}

}  // namespace megacpp::collectives
