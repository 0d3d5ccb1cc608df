// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/blend.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "megacpp/core/base/error.h"

namespace megacpp::data {
namespace {

constexpr size_t kMostSources = 1024;  // counts of all stand on the stack while one is chosen

// Whether sample a of a source with share s is due before sample b of one with share t: (a + 1/2) / s < (b + 1/2) / t.
bool is_due_before(int64_t a, int64_t s, int64_t b, int64_t t) {
  return static_cast<__int128>(2 * a + 1) * t < static_cast<__int128>(2 * b + 1) * s;
}

}  // namespace

Blend::Blend(std::vector<Part> parts) : parts_(std::move(parts)) {
  MEGACPP_REQUIRE(!parts_.empty() && parts_.size() <= kMostSources, E1003,
                  {.where = "data.blend",
                   .got = fmt::format("{} datasets", parts_.size()),
                   .wanted = fmt::format("1 to {}", kMostSources),
                   .next = "join datasets of the same kind into one"});
  constexpr double kUnits = static_cast<double>(int64_t{1} << 40);
  double total = 0;
  for (const Part& part : parts_) total += part.weight;
  for (const Part& part : parts_) shares_.push_back(std::max<int64_t>(1, std::llround(part.weight / total * kUnits)));
  for (const int64_t share : shares_) sum_ += share;
}

double Blend::share(size_t source) const { return static_cast<double>(shares_[source]) / static_cast<double>(sum_); }

Blend::Choice Blend::choose(int64_t sample) const {
  const size_t count = shares_.size();
  std::array<int64_t, kMostSources> taken;  // of each source, before `sample`
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    // No source is further behind its share than this; what is missing is dealt out below.
    const double behind = 1.5 + share(i) * static_cast<double>(count) / 2;
    const auto due = static_cast<int64_t>(static_cast<__int128>(sample) * shares_[i] / sum_);
    taken[i] = std::max<int64_t>(0, due - static_cast<int64_t>(std::ceil(behind)));
    sum += taken[i];
  }
  while (true) {
    size_t next = 0;
    for (size_t i = 1; i < count; ++i)
      if (is_due_before(taken[i], shares_[i], taken[next], shares_[next])) next = i;
    if (sum == sample) return {next, taken[next]};
    ++taken[next];
    ++sum;
  }
}

int64_t Blend::sequences(const Draw& draw, int64_t length) const {
  double most = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const int64_t own = parts_[i].source->sequences(draw, length);
    if (own == 0) return 0;
    most = std::max(most, static_cast<double>(own) / share(i));
  }
  return static_cast<int64_t>(std::min(most, 9e18));
}

void Blend::read(const Draw& draw, int64_t sample, std::span<int32_t> tokens, std::span<int32_t> segments) const {
  const Choice choice = choose(sample);
  parts_[choice.source].source->read(draw, choice.sample, tokens, segments);
}

int64_t Blend::vocabulary() const {
  int64_t largest = 0;
  for (const Part& part : parts_) largest = std::max(largest, part.source->vocabulary());
  return largest;
}

uint64_t Blend::fingerprint() const {
  uint64_t hash = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const std::array<uint64_t, 2> each = {parts_[i].source->fingerprint(), static_cast<uint64_t>(shares_[i])};
    hash = XXH64(each.data(), sizeof(each), hash);
  }
  return hash;
}

std::vector<SourcePart> Blend::parts() const {
  if (parts_.size() == 1) return parts_[0].source->parts();
  std::vector<SourcePart> parts;
  for (size_t i = 0; i < parts_.size(); ++i)
    for (SourcePart& part : parts_[i].source->parts())
      parts.push_back({.name = fmt::format("{:.1f}% {}", 100 * share(i), part.name), .fingerprint = part.fingerprint});
  return parts;
}

std::string Blend::describe() const {
  if (parts_.size() == 1) return parts_[0].source->describe();
  std::string text;
  for (size_t i = 0; i < parts_.size(); ++i)
    text += fmt::format("{}{:.1f}% {}", i == 0 ? "" : "; ", 100 * share(i), parts_[i].source->describe());
  return text;
}

}  // namespace megacpp::data
