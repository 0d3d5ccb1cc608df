// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/world.h"

#include <algorithm>
#include <charconv>

#include "megacpp/base/error.h"

namespace megacpp::collectives {
namespace {

constexpr char kSeparator = '\0';  // a subject has none; a value may

constexpr size_t kShownBytes = 200;

std::string shown(const std::string& value) {
  return value.size() <= kShownBytes ? value : value.substr(0, kShownBytes) + "...";
}

int64_t number_of(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  MEGACPP_CHECK(error == std::errc() && end == text.data() + text.size()) << "not a number: " << text;
  return number;
}

}  // namespace

/// What one process says.
struct World::Statement {
  std::string process;  // "process 1 (chips 2 to 3)"
  std::string subject;
  std::string value;
};

std::vector<World::Statement> World::statements(std::string_view subject, std::string_view value) {
  std::string own = "chips " + std::to_string(local_chips().front()) + " to " + std::to_string(local_chips().back());
  own.append(1, kSeparator).append(subject).append(1, kSeparator).append(value);
  std::vector<Statement> all;
  for (const std::string& text : gather(own)) {
    const size_t chips_end = text.find(kSeparator), subject_end = text.find(kSeparator, chips_end + 1);
    MEGACPP_CHECK(subject_end != std::string::npos) << "not a statement: " << text;
    all.push_back({.process = "process " + std::to_string(all.size()) + " (" + text.substr(0, chips_end) + ")",
                   .subject = text.substr(chips_end + 1, subject_end - chips_end - 1),
                   .value = text.substr(subject_end + 1)});
    MEGACPP_CHECK(all.back().subject == all.front().subject)
        << all.back().process << " agrees on '" << all.back().subject << "', " << all.front().process << " on '"
        << all.front().subject << "'";
  }
  return all;
}

void World::agree_same(std::string_view subject, std::string_view value) {
  const std::vector<Statement> all = statements(subject, value);
  std::string differ;
  for (const Statement& other : all)
    if (other.value != all.front().value)
      differ += (differ.empty() ? "" : "; ") + other.process + ": " + shown(other.value);
  MEGACPP_REQUIRE(differ.empty(), E3103,
                  {.where = std::string(subject),
                   .got = differ,
                   .wanted = "the same as " + all.front().process + ": " + shown(all.front().value),
                   .next = "start every process with the same command, recipe and build"});
}

int64_t World::agree_min(std::string_view subject, int64_t value) {
  int64_t least = value;
  for (const Statement& other : statements(subject, std::to_string(value)))
    least = std::min(least, number_of(other.value));
  return least;
}

bool World::agree_any(std::string_view subject, bool value) {
  return std::ranges::any_of(statements(subject, value ? "yes" : "no"),
                             [](const Statement& other) { return other.value == "yes"; });
}

}  // namespace megacpp::collectives
