// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_data.h"

#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/utf8.h"

namespace megacpp::launch {
namespace {

using base::Json;

constexpr size_t kMostNames = 5;  // of one kind of change that a message has

using Parts = std::map<std::string, std::string>;  // fingerprints by name

Parts named_parts(const data::TokenSource& source) {
  Parts parts;
  for (const data::SourcePart& part : source.parts())
    parts[base::printable_in_line(part.name)] = base::hash_text(part.fingerprint);
  return parts;
}

struct KnownData {
  std::string fingerprint;
  Parts parts;
};

std::string text_of(const Json& object, std::string_view key, const std::string& where) {
  const Json* const member = base::find_member(object, key);
  const std::string* const text = member == nullptr ? nullptr : base::as_text(*member);
  MEGACPP_REQUIRE(text != nullptr, E1008,
                  ({.where = where,
                    .got = fmt::format("no text '{}'", key),
                    .wanted = "the data of a run, as megacpp wrote them",
                    .next = "remove the file: the run then goes on with the data there are"}));
  return *text;
}

KnownData read_known(const std::filesystem::path& file) {
  const Json json = base::parse_json(base::read_file(file), base::Code::E1008, file.string());
  KnownData known{.fingerprint = text_of(json, "fingerprint", file.string()), .parts = {}};
  if (const Json* const parts = base::find_member(json, "parts"); parts != nullptr && parts->is_array())
    for (const Json& part : *parts)
      known.parts[text_of(part, "name", file.string())] = text_of(part, "fingerprint", file.string());
  return known;
}

/// "changed: a.txt, b.txt and 3 more".
std::string change_text(const char* kind, std::vector<std::string> names) {
  const size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
  names.resize(names.size() - more);
  return fmt::format("{}: {}{}", kind, fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string difference_text(const Parts& before, const Parts& now) {
  std::vector<std::string> changed, gone, added, texts;
  for (const auto& [name, fingerprint] : before) {
    const auto at = now.find(name);
    if (at == now.end())
      gone.push_back(name);
    else if (at->second != fingerprint)
      changed.push_back(name);
  }
  for (const auto& [name, fingerprint] : now)
    if (!before.contains(name)) added.push_back(name);
  if (!changed.empty()) texts.push_back(change_text("changed", std::move(changed)));
  if (!gone.empty()) texts.push_back(change_text("gone", std::move(gone)));
  if (!added.empty()) texts.push_back(change_text("new", std::move(added)));
  return texts.empty() ? "the same parts in another order" : fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

std::filesystem::path data_file_of(const std::filesystem::path& run) { return run / "data.json"; }

std::string data_text(const data::TokenSource& source) {
  Json parts = Json::array();
  for (const auto& [name, fingerprint] : named_parts(source))
    parts.push_back(Json{{"name", name}, {"fingerprint", fingerprint}});
  return base::to_text(Json{{"data", source.describe()},
                            {"fingerprint", base::hash_text(source.fingerprint())},
                            {"parts", std::move(parts)}},
                       1) +
         "\n";
}

std::optional<std::string> changed_data(const std::filesystem::path& run, const data::TokenSource& source) {
  const std::filesystem::path file = data_file_of(run);
  if (!base::exists(file)) return std::nullopt;
  const KnownData known = read_known(file);
  if (known.fingerprint == base::hash_text(source.fingerprint())) return std::nullopt;
  return difference_text(known.parts, named_parts(source));
}

void require_same_data(const std::filesystem::path& run, const data::TokenSource& source) {
  const std::optional<std::string> change = changed_data(run, source);
  MEGACPP_REQUIRE(!change, E1007,
                  ({.where = "--resume " + run.string(),
                    .got = "other training data: " + *change,
                    .wanted = "the data that the run was trained on so far (" + data_file_of(run).string() + ")",
                    .next = "give it these data again, or go on with the new ones: add --allow-changed-data"}));
}

}  // namespace megacpp::launch
