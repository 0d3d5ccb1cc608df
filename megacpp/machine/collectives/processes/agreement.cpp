// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/agreement.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/long_wait.h"
#include "megacpp/machine/collectives/processes/gather_rounds.h"

namespace megacpp::collectives {
namespace {

constexpr const char* kWhere = "agreement of all processes";
constexpr int kQuestionsInASilence = 4;  // to a process that is waited for

std::string waited_for(std::chrono::milliseconds time, const std::string& whom) {
  return "waited " + std::to_string(time.count()) + " ms for " + whom;
}

// The first blocks, each behind its length.
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
    size_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    text.remove_prefix(std::min(text.size(), static_cast<size_t>(end - text.data()) + 1));  // and the colon
    MEGACPP_CHECK(error == std::errc() && size <= text.size()) << "an agreement that is cut off";
    blocks.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
}

// Whoever listens may take its time: frames are dealt with meanwhile.
void say_long_wait(EngineLock& lock, CallEngine::Clock::duration waited, const std::string& whom) {
  lock.unlock();
  tell_long_wait(
      {.waited = std::chrono::duration_cast<std::chrono::milliseconds>(waited), .whom = whom + ", which answers"});
  lock.lock();
}

}  // namespace

std::vector<std::string> Agreement::gather(const std::string& own, const AgreementTimeouts& timeouts) {
  EngineLock lock(engine_.mutex);
  const int64_t count = map_.count, me = map_.own, number = count_++;
  std::vector<std::string> blocks = {own};
  int64_t round = 0;
  engine_.check_alive(lock, engine_.local().front(), kWhere);
  for (const GatherRound& each : gather_rounds(count)) {
    loop_.post((me + each.distance) % count, {.kind = FrameKind::gather, .sequence = number, .number = round},
               packed(blocks, each.blocks));
    loop_.wake();
    append_unpacked(await(lock, {number, round}, (me - each.distance + count) % count, timeouts), blocks);
    ++round;
  }
  MEGACPP_CHECK(static_cast<int64_t>(blocks.size()) == count) << blocks.size() << " statements of " << count;
  std::vector<std::string> by_process(blocks.size());
  for (int64_t i = 0; i < count; ++i)
    by_process[static_cast<size_t>((me - i + count) % count)] = std::move(blocks[static_cast<size_t>(i)]);
  return by_process;
}

void Agreement::on_gathered(const FrameHeader& header, const std::string& text) {
  gathered_[{header.sequence, header.number}] = text;
  liveness_.news.notify_all();
}

std::string Agreement::await(EngineLock& lock, Key key, int64_t from, const AgreementTimeouts& timeouts) {
  // In the first round a process waits for one that has not come at all. Later it may wait for one that waits itself:
  // it leaves the word to who knows.
  const bool is_first_round = key.second == 0;
  const auto limit = timeouts.limit + (is_first_round ? 1 : 2) * answer_limit(timeouts.limit);
  const auto begin = Clock::now();
  auto question = begin + timeouts.silence / kQuestionsInASilence, line = begin + timeouts.silence;
  while (true) {
    engine_.check_alive(lock, engine_.local().front(), kWhere);
    if (const auto found = gathered_.find(key); found != gathered_.end()) {
      std::string text = std::move(found->second);
      gathered_.erase(found);
      return text;
    }
    if (const std::optional<std::string> lost = liveness_.lost(from)) {
      engine_.fail(lock,
                   {map_.chips_of(from).front(), map_.name_of(from) + " is gone (" + *lost + ") in an agreement"});
      continue;
    }
    if (const std::string waited = overdue(from, begin, limit, timeouts); !waited.empty()) time_out(lock, waited);
    const auto now = Clock::now();
    if (is_first_round && now >= line && now - begin < timeouts.limit) {
      line = now + timeouts.silence;
      say_long_wait(lock, now - begin, map_.name_of(from));
    } else if (now >= question) {
      liveness_.ask_for_sign(from);
      question = now + timeouts.silence / kQuestionsInASilence;
    } else {
      liveness_.news.wait_for(lock, kLookAgain);
    }
  }
}

// One that answers waits for another itself: who waits for the one that does not has the word.
std::string Agreement::overdue(int64_t from, Clock::time_point begin, std::chrono::milliseconds limit,
                               const AgreementTimeouts& timeouts) const {
  if (liveness_.is_silent(from, begin, timeouts.silence))
    return waited_for(timeouts.silence, map_.name_of(from)) + ", which does not answer";
  return Clock::now() - begin >= limit ? waited_for(timeouts.limit, map_.name_of(from)) : "";
}

void Agreement::time_out(EngineLock& lock, const std::string& waited) {
  const int64_t chip = engine_.local().front();
  engine_.fail(lock, {chip, waited + ": " + kWhere});
  base::raise(base::Code::E3102,
              {.where = chip_text(chip) + ", " + kWhere,
               .got = waited,
               .wanted = "every process at the agreement",
               .next = "look at that process: it computes, hangs, or waits for another itself; raise train.wait_limit "
                       "if it is only slow"});
}

}  // namespace megacpp::collectives
