// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/judge.h"

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "tests/support/child_process.h"

namespace megacpp::faults {
namespace {

using testing_support::Ending;

bool remembers(const std::string& list) {
  const base::Json object = base::parse_json(list, base::Code::E1202, "stdout");
  const base::Json* const entries = base::find_member(object, "entries");
  return entries != nullptr && std::ranges::any_of(*entries, [](const base::Json& entry) {
           const base::Json* const model = base::find_member(entry, "model");
           return model != nullptr && *model == kRememberedModel;
         });
}

int64_t integer_in(const base::Json& object, std::string_view name) {
  const base::Json* const member = base::find_member(object, name);
  return member == nullptr ? -1 : base::as_integer(*member).value_or(-1);
}

}  // namespace

bool is_one_request(const Injection& injection, std::chrono::milliseconds apart) {
  constexpr std::chrono::milliseconds kSurelyOne(800);  // a busy machine may deliver the first one late
  return !injection.signals.empty() && std::ranges::count(injection.signals, SIGKILL) == 0 && apart < kSurelyOne &&
         injection.before == Injection().before && injection.after.empty() && !injection.disk &&
         injection.launches == 1;
}

std::vector<std::string> judge_run(const std::filesystem::path& run) try {
  const std::filesystem::path file = run / "receipt.json";
  if (!std::filesystem::exists(file)) return {};
  const base::Json receipt = base::parse_json(base::read_file(file), base::Code::E1801, file.string());
  const base::Json* const ending = base::find_member(receipt, "ending");
  const base::Json* const kind = ending == nullptr ? nullptr : base::find_member(*ending, "kind");
  if (kind == nullptr || (*kind != "finished" && *kind != "interrupted"))
    return {"its receipt says '" + (kind == nullptr ? "nothing" : base::to_text(*kind)) + "' of its end"};
  const int64_t steps = integer_in(*ending, "steps");
  char name[32] = "";
  std::snprintf(name, sizeof(name), "step-%08lld", static_cast<long long>(steps));
  if (steps > 0 && !std::filesystem::exists(run / "checkpoints" / name / "manifest.json"))
    return {"of its " + std::to_string(steps) + " steps there is no checkpoint"};
  return {};
} catch (const base::Error& error) {
  return {"its receipt cannot be read: " + error.problem().got};
}

std::vector<std::string> judge_command(const Injection& injection, const Command& command, Ending ending) {
  const bool was_killed = std::ranges::count(injection.signals, SIGKILL) > 0;
  if (testing_support::is_not_started(ending) || (was_killed && ending.signal == SIGKILL)) return {};
  ending.json = command.json && injection.stdout_is == Stream::seen;
  ending.err_unseen = injection.hides_stderr || command.has_launcher;
  std::vector<std::string> breaches = testing_support::breaches_of(ending);
  // A refusal has said why, and one that is stopped at once has printed nothing.
  const bool says_success = ending.status == 0 || (ending.status == base::kInterruptedStatus && !command.until_stopped);
  if (injection.stdout_is == Stream::lost && says_success)
    breaches.push_back("what it printed was lost, and the status is " + std::to_string(ending.status));
  return breaches;
}

std::vector<std::string> judge_catalog(Ending ending) {
  ending.json = true;
  std::vector<std::string> breaches = testing_support::breaches_of(ending);
  if (ending.status != 0)
    breaches.push_back("afterwards the catalog cannot be read");
  else if (breaches.empty() && !remembers(ending.out))
    breaches.push_back("afterwards the catalog has lost what it remembered");
  return breaches;
}

}  // namespace megacpp::faults
