// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/key_values.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <string_view>

#include "megacpp/base/error.h"

namespace megacpp::collectives {
namespace {

// Between rounds: while some process waits for a value, and at most while none does.
constexpr std::chrono::milliseconds kShortPause(2), kLongPause(200);

/// What a process says in a round.
struct News {
  bool is_closing = false;
  bool is_waiting = false;
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
  std::string text = {news.is_closing ? 'c' : '-', news.is_waiting ? 'w' : '-'};
  for (const auto& [key, value] : news.values) {
    append_sized(text, key);
    append_sized(text, value);
  }
  return text;
}

News news_of(std::string_view text) {
  MEGACPP_CHECK(text.size() >= 2) << "no keys and values: " << text;
  News news{.is_closing = text[0] == 'c', .is_waiting = text[1] == 'w'};
  text.remove_prefix(2);
  while (!text.empty()) {
    std::string key = take_sized(text);
    news.values.emplace_back(std::move(key), take_sized(text));
  }
  return news;
}

}  // namespace

KeyValues::KeyValues(std::shared_ptr<World> world, std::chrono::milliseconds close_limit)
    : world_(std::move(world)), close_limit_(close_limit), pause_(kShortPause), thread_([this] { exchange(); }) {}

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
    pending_.emplace_back(key, std::move(value));
  }
  wanted_.notify_all();
  news_.notify_all();
}

std::optional<std::string> KeyValues::get(const std::string& key, std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  ++waiting_;
  wanted_.notify_all();
  news_.wait_for(lock, limit, [&] { return values_.contains(key) || !failure_.empty(); });
  --waiting_;
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  require_alive();
  return std::nullopt;
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

void KeyValues::require_alive() const {
  if (failure_.empty()) return;
  base::raise(base::Code::E3101, {.where = "values that the processes share",
                                  .got = failure_,
                                  .wanted = "every process of the run alive",
                                  .next = "mend what the process under got reports; its own message has the code"});
}

void KeyValues::exchange() {
  Lock lock(mutex_);
  try {
    while (exchange_once(lock)) continue;
  } catch (const base::Error& error) {
    if (!lock.owns_lock()) lock.lock();
    failure_ = error.problem().got.empty() ? error.what() : error.problem().got;
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    failure_ = error.what();
  }
  news_.notify_all();
}

bool KeyValues::exchange_once(Lock& lock) {
  // One that waits is heard in the next round of the others at the latest, and then all make haste.
  const bool was_hasty = pause_ == kShortPause;
  wanted_.wait_for(lock, pause_, [&] { return !pending_.empty() || (!was_hasty && (waiting_ > 0 || closing_)); });
  if (closing_ && Clock::now() - *closing_ > close_limit_)
    world_->abort(world_->local_chips().front(), "waited too long for the other processes to end the run");
  const News own{.is_closing = closing_.has_value(), .is_waiting = waiting_ > 0, .values = std::exchange(pending_, {})};
  lock.unlock();
  const std::vector<std::string> all = world_->share("keys and values", news_text(own));
  lock.lock();
  bool has_news = false, all_close = true;
  for (size_t process = 0; process < all.size(); ++process) {
    News news = news_of(all[process]);
    has_news |= news.is_waiting || news.is_closing || !news.values.empty();
    all_close &= news.is_closing;
    for (auto& [key, value] : news.values) values_[key] = std::move(value);
  }
  for (const auto& [key, value] : pending_) values_[key] = value;  // put here since: news of the next round
  pause_ = has_news ? kShortPause : std::min(2 * pause_, kLongPause);
  news_.notify_all();
  return !all_close;
}

}  // namespace megacpp::collectives
