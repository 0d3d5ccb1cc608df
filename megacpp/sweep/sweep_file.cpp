// SPDX-License-Identifier: Apache-2.0
#include "megacpp/sweep/sweep_file.h"

#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/json.h"
#include "megacpp/base/path.h"

namespace megacpp::sweep {
namespace {

using base::Json;

[[noreturn]] void refuse_file(const std::filesystem::path& file, std::string got) {
  base::raise(base::Code::E1008, {.where = file.string(),
                                  .got = std::move(got),
                                  .wanted = "what a sweep has written",
                                  .next = "name another folder with --dir, or remove this one"});
}

/// Members of one object of the file.
class Members {
 public:
  Members(const Json& object, const std::filesystem::path& file) : object_(object), file_(file) {}

  std::string text(const char* name) const {
    const std::string* const value = base::as_text(member(name));
    if (value == nullptr) refuse_file(file_, std::string(name) + " is no text");
    return *value;
  }
  size_t count(const char* name) const {
    const std::optional<int64_t> value = base::as_integer(member(name));
    if (!value || *value < 0) refuse_file(file_, std::string(name) + " is no count");
    return static_cast<size_t>(*value);
  }
  const Json& list(const char* name) const {
    const Json& value = member(name);
    if (!value.is_array()) refuse_file(file_, std::string(name) + " is no list");
    return value;
  }

 private:
  const Json& member(const char* name) const {
    const Json* const value = base::find_member(object_, name);
    if (value == nullptr) refuse_file(file_, "no " + std::string(name));
    return *value;
  }

  const Json& object_;
  const std::filesystem::path& file_;
};

}  // namespace

void write_sweep(const Sweep& sweep) {
  Json trials = Json::array();
  for (const TrialRecord& record : sweep.trials)
    trials.push_back(Json{{"value", record.trial.value},
                          {"repeat", record.trial.repeat},
                          {"run", record.run},
                          {"status", record.status},
                          {"error", record.error}});
  const Json object = {
      {"axis", sweep.axis.key}, {"values", sweep.axis.values}, {"repeats", sweep.repeats}, {"trials", trials}};
  base::write_file_atomically(sweep.folder / kSweepFile, base::to_text(object, 2) + "\n");
}

std::optional<Sweep> read_sweep(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kSweepFile;
  if (!base::exists(file)) return std::nullopt;
  const Json object = base::parse_json(base::read_file(file), base::Code::E1008, file.string());
  const Members members(object, file);
  Sweep sweep{
      .folder = folder, .axis = {.key = members.text("axis"), .values = {}}, .repeats = members.count("repeats")};
  for (const Json& value : members.list("values")) {
    const std::string* const text = base::as_text(value);
    if (text == nullptr) refuse_file(file, "a value is no text");
    sweep.axis.values.push_back(*text);
  }
  for (const Json& each : members.list("trials")) {
    const Members trial(each, file);
    TrialRecord record{.trial = {.value = trial.count("value"), .repeat = trial.count("repeat")},
                       .run = trial.text("run"),
                       .status = static_cast<int>(trial.count("status")),
                       .error = trial.text("error")};
    if (record.trial.value >= sweep.axis.values.size()) refuse_file(file, "a run of a value that is not there");
    sweep.trials.push_back(std::move(record));
  }
  return sweep;
}

}  // namespace megacpp::sweep
