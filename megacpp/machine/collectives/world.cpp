// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/world.h"

#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

constexpr char kSeparator = '\0';  // a subject has none; a value may

constexpr size_t kShownBytes = 200;  // of a value
constexpr size_t kShownFields = 8;   // of a process
constexpr size_t kShownGroups = 8;   // of processes that differ alike

using Fields = std::map<std::string, std::string>;

void append_text(std::string& bytes, const std::string& text) {
  bytes.append(std::to_string(text.size())).append(1, ':').append(text);
}

std::string take_text(std::string_view& bytes) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
  const size_t begin = static_cast<size_t>(end - bytes.data()) + 1;  // behind the colon
  MEGACPP_CHECK(error == std::errc() && begin + size <= bytes.size()) << "not a list of fields: " << bytes;
  std::string text(bytes.substr(begin, size));
  bytes.remove_prefix(begin + size);
  return text;
}

// Each name and value behind its length, so that both may hold any bytes.
std::string encode(std::span<const Field> fields) {
  std::string bytes;
  for (const Field& field : fields) {
    append_text(bytes, field.name);
    append_text(bytes, field.value);
  }
  return bytes;
}

Fields decode(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    std::string name = take_text(bytes);
    fields[std::move(name)] = take_text(bytes);
  }
  return fields;
}

// Of bytes that one program has written and the same one compares: no attack is meant to be found.
std::string digest_of(std::string_view bytes) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return std::to_string(bytes.size()) + " " + std::to_string(hash);
}

std::set<std::string> differing_names(const Fields& a, const Fields& b) {
  std::set<std::string> names;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (const auto& [name, value] : *one)
      if (const auto at = other->find(name); at == other->end() || at->second != value) names.insert(name);
  return names;
}

std::string shown(const std::string& value) {
  return value.size() <= kShownBytes ? value : value.substr(0, kShownBytes) + "...";
}

// "train.batch 4, layout.zero 3"
std::string text_of(const Fields& fields, const std::set<std::string>& names) {
  std::string text;
  size_t count = 0;
  for (const std::string& name : names) {
    if (++count > kShownFields) return text + " and " + std::to_string(names.size() - kShownFields) + " more fields";
    const auto at = fields.find(name);
    text += (text.empty() ? "" : ", ") + name + (at == fields.end() ? " absent" : " " + shown(at->second));
  }
  return text;
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
  std::string process;  // "process 1 on node7 (chips 2 to 3)"
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
    const std::string host = all.size() < hosts().size() ? " on " + hosts()[all.size()] : "";
    all.push_back({.process = "process " + std::to_string(all.size()) + host + " (" + text.substr(0, chips_end) + ")",
                   .subject = text.substr(chips_end + 1, subject_end - chips_end - 1),
                   .value = text.substr(subject_end + 1)});
    MEGACPP_CHECK(all.back().subject == all.front().subject)
        << all.back().process << " agrees on '" << all.back().subject << "', " << all.front().process << " on '"
        << all.front().subject << "'";
  }
  return all;
}

std::vector<std::string> World::share(std::string_view subject, std::string_view value) {
  std::vector<std::string> values;
  for (Statement& statement : statements(subject, value)) values.push_back(std::move(statement.value));
  return values;
}

std::optional<std::string> World::silent_successor(std::chrono::milliseconds) { return std::nullopt; }

const std::vector<std::string>& World::hosts() const {
  static const std::vector<std::string> kUnknown;
  return kUnknown;
}

void World::agree_same(std::string_view subject, std::span<const Field> fields) {
  const std::string bytes = encode(fields), digest = digest_of(bytes);
  const std::vector<Statement> digests = statements(subject, digest);
  const auto is_other = [&](const Statement& statement) { return statement.value != digests.front().value; };
  if (std::ranges::none_of(digests, is_other)) return;
  // Those that agree with process 0 have nothing to add.
  const bool is_told = is_coordinator() || digest != digests.front().value;
  const std::vector<Statement> all = statements(subject, is_told ? std::string_view(bytes) : std::string_view());
  try {
    statements(subject, "");  // none ends, and the world with it, before all have heard this
  } catch (const base::Error&) {
    // another has heard that all have
  }
  refuse_different(all);
}

void World::refuse_different(const std::vector<Statement>& all) {
  const Fields first = decode(all.front().value);
  std::map<std::string, std::vector<size_t>> groups;  // of processes, by what they said
  for (size_t process = 1; process < all.size(); ++process)
    if (!all[process].value.empty()) groups[all[process].value].push_back(process);
  std::vector<std::pair<size_t, std::string>> differ;  // by the first process of a group
  std::set<std::string> names;                         // of fields on which any process differs
  for (const auto& [value, processes] : groups) {
    const Fields own = decode(value);
    const std::set<std::string> its = differing_names(first, own);
    const size_t others = processes.size() - 1;
    differ.emplace_back(processes.front(), all[processes.front()].process +
                                               (others > 0 ? " and " + std::to_string(others) + " more" : "") + ": " +
                                               text_of(own, its));
    names.insert(its.begin(), its.end());
  }
  std::ranges::sort(differ);
  std::string got;
  for (size_t group = 0; group < std::min(differ.size(), kShownGroups); ++group)
    got += (got.empty() ? "" : "; ") + differ[group].second;
  if (differ.size() > kShownGroups) got += "; and " + std::to_string(differ.size() - kShownGroups) + " others";
  base::raise(base::Code::E3103, {.where = all.front().subject,
                                  .got = got,
                                  .wanted = "the same as " + all.front().process + ": " + text_of(first, names),
                                  .next = "start every process with the same command, recipe, files and build"});
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

std::string path_over_processes(const World& world) {
  if (world.has_all_chips()) return "";
  const Properties& transport = world.properties();
  const int64_t processes = world.chips() / static_cast<int64_t>(world.local_chips().size());
  const std::string tensors = world.path_of_tensors();
  return ", " + std::to_string(processes) + " processes over " + std::string(transport.name) +
         (tensors.empty() ? "" : ", " + tensors) + (transport.has_fixed_order_sums ? ", exact sums" : ", fast sums");
}

}  // namespace megacpp::collectives
