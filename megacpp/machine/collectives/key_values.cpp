// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/key_values.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "megacpp/core/base/thread.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/collectives/long_wait.h"

namespace megacpp::collectives {
namespace {

// Between rounds: while some process waits for a value, and at most while none does.
constexpr std::chrono::milliseconds kShortPause(2), kLongPause(200);

/// What a process says in a round.
struct News {
  bool is_closing = false;
  bool is_waiting = false;
  bool gives_up = false;     // all have waited too long
  std::string awaited = {};  // the key that it waits for, where it does
  std::vector<std::pair<std::string, std::string>> values = {};
};

void append_sized(std::string& text, const std::string& part) {
  text.append(std::to_string(part.size())).append(1, ':').append(part);
}

std::string take_sized(std::string_view& text) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const size_t begin = static_cast<size_t>(end - text.data()) + 1;  // behind the colon
  MEGACPP_CHECK(error == std::errc() && begin + size <= text.size()) << "keys and values that are cut off";
  std::string part(text.substr(begin, size));
  text.remove_prefix(begin + size);
  return part;
}

std::string news_text(const News& news) {
  std::string text = {news.is_closing ? 'c' : '-', news.is_waiting ? 'w' : '-', news.gives_up ? 'g' : '-'};
  append_sized(text, news.awaited);
  for (const auto& [key, value] : news.values) {
    append_sized(text, key);
    append_sized(text, value);
  }
  return text;
}

News news_of(std::string_view text) {
  constexpr size_t kFlags = 3;
  MEGACPP_CHECK(text.size() >= kFlags) << "no keys and values: " << text;
  News news{.is_closing = text[0] == 'c', .is_waiting = text[1] == 'w', .gives_up = text[2] == 'g'};
  text.remove_prefix(kFlags);
  news.awaited = take_sized(text);
  while (!text.empty()) {
    std::string key = take_sized(text);
    news.values.emplace_back(std::move(key), take_sized(text));
  }
  return news;
}

}  // namespace

KeyValues::KeyValues(std::shared_ptr<World> world, std::chrono::milliseconds limit)
    : world_(std::move(world)),
      limit_(limit),
      pause_(kShortPause),
      thread_(base::start_thread("values that processes share", [this] { exchange(); })) {}

KeyValues::~KeyValues() {
  {
    const Lock lock(mutex_);
    closing_ = Clock::now();
  }
  wanted_.notify_all();
  thread_.join();
}

void KeyValues::put(const std::string& key, std::string value) {
  {
    const Lock lock(mutex_);
    require_alive();
    values_[key] = value;
    last_key_ = key;
    outgoing_.emplace_back(key, std::move(value));
  }
  wanted_.notify_all();
  news_.notify_all();
}

std::optional<std::string> KeyValues::get(const std::string& key, std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  awaited_.push_back(key);
  wanted_.notify_all();
  await(lock, key, limit);
  awaited_.erase(std::ranges::find(awaited_, key));
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  require_alive();
  return std::nullopt;
}

void KeyValues::await(Lock& lock, const std::string& key, std::chrono::milliseconds limit) {
  const auto is_over = [&] { return values_.contains(key) || !failure_.empty() || has_given_up_; };
  const Clock::time_point begin = Clock::now(), deadline = begin + limit;
  for (Clock::time_point line = begin + limit_; line < deadline; line += limit_) {
    if (news_.wait_until(lock, line, is_over)) return;
    lock.unlock();
    tell_long_wait({.waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin),
                    .whom = "the value '" + key + "', which no process has put"});
    lock.lock();
  }
  news_.wait_until(lock, deadline, is_over);
}

std::optional<std::string> KeyValues::try_get(const std::string& key) {
  const Lock lock(mutex_);
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  require_alive();
  return std::nullopt;
}

void KeyValues::abort(const std::string& reason) { world_->abort(world_->local_chips().front(), reason); }

std::string KeyValues::failure() {
  const Lock lock(mutex_);
  return failure_;
}

std::string KeyValues::progress() {
  const Lock lock(mutex_);
  std::string text = std::to_string(values_.size()) + " values";
  if (!values_.empty()) text += ", the last '" + last_key_ + "'";
  for (size_t process = 0; process < awaited_by_.size(); ++process) {
    const std::string& key = awaited_by_[process];
    text += (process == 0 ? "; process " : ", process ") + std::to_string(process) +
            (process == 0 ? " waits for " : " for ") + (key.empty() ? "none" : "'" + key + "'");
  }
  return text;
}

void KeyValues::require_alive() const {
  if (failure_.empty()) return;
  base::raise(base::Code::E3101, {.where = "values that the processes share",
                                  .got = failure_,
                                  .wanted = "every process of the run alive",
                                  .next = "mend what the process under got reports; its own message has the code",
                                  .cause = cause_});
}

void KeyValues::exchange() {
  Lock lock(mutex_);
  try {
    while (exchange_once(lock)) continue;
  } catch (const base::Error& error) {
    end_by(lock, error, error.problem().got.empty() ? error.what() : error.problem().got);
    cause_ = error.problem().cause;
  } catch (const std::exception& error) {
    end_by(lock, error, error.what());
  }
  news_.notify_all();
}

// The others take part in rounds for as long as nobody has failed: they are told.
void KeyValues::end_by(Lock& lock, const std::exception& error, const std::string& failure) {
  if (!lock.owns_lock()) lock.lock();
  failure_ = failure;
  world_->abort(world_->local_chips().front(), reason_of(error));
}

bool KeyValues::exchange_once(Lock& lock) {
  // One that waits is heard in the next round of the others at the latest, and then all make haste.
  const bool was_hasty = pause_ == kShortPause;
  wanted_.wait_for(lock, pause_, [&] { return !outgoing_.empty() || (!was_hasty && (!awaited_.empty() || closing_)); });
  if (closing_ && Clock::now() - *closing_ > limit_)
    world_->abort(world_->local_chips().front(), "waited too long for the other processes to end the run");
  const News own{.is_closing = closing_.has_value(),
                 .is_waiting = !awaited_.empty(),
                 .gives_up = all_wait_since_ && Clock::now() - *all_wait_since_ > limit_,
                 .awaited = awaited_.empty() ? "" : awaited_.front(),
                 .values = std::exchange(outgoing_, {})};
  lock.unlock();
  const std::vector<std::string> all = world_->share("keys and values", news_text(own));
  lock.lock();
  bool has_news = false, all_close = true, all_wait = true;
  awaited_by_.resize(all.size());
  for (size_t process = 0; process < all.size(); ++process) {
    News news = news_of(all[process]);
    has_news |= news.is_waiting || news.is_closing || !news.values.empty();
    all_close &= news.is_closing;
    all_wait &= news.is_waiting && news.values.empty();
    has_given_up_ |= news.gives_up;
    awaited_by_[process] = std::move(news.awaited);
    for (auto& [key, value] : news.values) {
      last_key_ = key;
      values_[key] = std::move(value);
    }
  }
  for (const auto& [key, value] : outgoing_) values_[key] = value;  // put here since: news of the next round
  if (!all_wait) all_wait_since_.reset();
  if (all_wait && !all_wait_since_) all_wait_since_ = Clock::now();
  pause_ = has_news ? kShortPause : std::min(2 * pause_, kLongPause);
  news_.notify_all();
  return !all_close;
}

}  // namespace megacpp::collectives
