// SPDX-License-Identifier: Apache-2.0
// The contract of docs/errors.md, judged from outside: how a command ended and what it left on stdout and stderr. A
// command ends by itself, in time and with a documented status. One that fails says one error on stderr: its code and
// title, where, got, wanted and next, in this order and none of them empty, in valid UTF-8 without control characters;
// the status is that of the code's class. With --json stdout is one JSON object either way, and says the same error and
// the status under "error"; only a command that a signal stopped at once may leave it empty. Errors of class internal
// keep no contract: they are defects. Needs no test framework, so that fuzz targets can use it too.
#pragma once

#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/utf8.h"

namespace megacpp::testing_support {

/// How a command ended.
struct Ending {
  int status = 0;           // exit status
  int signal = 0;           // that ended the process; 0: none did
  bool hung = false;        // it still ran at its time limit
  bool json = false;        // it was given --json, and `out` is what it printed
  bool err_unseen = false;  // stderr went where nobody reads it: only the status and stdout are judged
  std::string out = {};
  std::string err = {};
};

/// The error that a command printed, by its own words.
struct PrintedError {
  std::string code;
  std::string title;
  std::array<std::string, 4> parts;  // as kErrorParts
};
inline constexpr std::array<std::string_view, 4> kErrorParts = {"where", "got", "wanted", "next"};

namespace error_contract {

using Breaches = std::vector<std::string>;  // a sentence each

inline std::optional<base::Code> code_named(std::string_view name) {
#define MEGACPP_CODE(code, cls, title) \
  if (name == #code) return base::Code::code;
  MEGACPP_ERROR_CODES(MEGACPP_CODE)
#undef MEGACPP_CODE
  return std::nullopt;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// "  wanted: a number": the part of the error that the line begins; a line of none goes on with the part before.
inline std::optional<size_t> part_begun(const std::string& line) {
  for (size_t part = 0; part < kErrorParts.size(); ++part)
    if (line.starts_with("  " + std::string(kErrorParts[part]) + ":")) return part;
  return std::nullopt;
}

constexpr size_t kPartColumn = 10;  // where the text of a part begins

inline PrintedError read_error(const std::vector<std::string>& lines, size_t first, Breaches& breaches) {
  constexpr size_t kCode = 6, kCodeLength = 5;  // "error E1001 title"
  const std::string& head = lines[first];
  PrintedError error{.code = head.substr(kCode, kCodeLength),
                     .title = head.size() > kCode + kCodeLength ? head.substr(kCode + kCodeLength + 1) : "",
                     .parts = {}};
  size_t expected = 0;
  for (size_t i = first + 1; i < lines.size(); ++i) {
    const std::optional<size_t> part = part_begun(lines[i]);
    if (part && *part >= expected) {
      error.parts[*part] = lines[i].size() > kPartColumn ? lines[i].substr(kPartColumn) : "";
      expected = *part + 1;
    } else if (expected == 0) {
      breaches.push_back("the error's title is followed by '" + lines[i] + "'");
    } else {
      error.parts[expected - 1] += "\n" + lines[i];
    }
  }
  return error;
}

inline void judge_parts(const PrintedError& error, Breaches& breaches) {
  const std::optional<base::Code> code = code_named(error.code);
  if (!code) return breaches.push_back("the code '" + error.code + "' is not documented");
  if (error.title != base::code_title(*code))
    breaches.push_back("the title of " + error.code + " is '" + error.title + "'");
  if (base::class_of(*code) == base::ErrorClass::internal)
    breaches.push_back(error.code + " is a defect: " + error.parts[0] + ": " + error.parts[1]);
  // What stands in for a part that nobody wrote says nothing; a next step may be the documentation's.
  const base::Problem unsaid = base::Error(*code, {}).problem();
  const std::array<std::string, kErrorParts.size()> stand_ins = {unsaid.where, unsaid.got, unsaid.wanted, ""};
  for (size_t part = 0; part < kErrorParts.size(); ++part)
    if (error.parts[part].empty() || error.parts[part] == stand_ins[part])
      breaches.push_back(error.code + " has no '" + std::string(kErrorParts[part]) + "'");
}

inline bool is_success(int status) { return status == 0 || status == base::kInterruptedStatus; }

/// The member "error" against what stderr says; `status` is that of the command.
inline void judge_error_member(const base::Json& said, const PrintedError& error, int status, Breaches& breaches) {
  const auto member = [&](std::string_view name) {
    const base::Json* value = base::find_member(said, name);
    const std::string* text = value == nullptr ? nullptr : base::as_text(*value);
    return text == nullptr ? "" : *text;
  };
  if (member("code") != error.code) breaches.push_back("the JSON says code '" + member("code") + "'");
  if (member("title") != error.title) breaches.push_back("the JSON says title '" + member("title") + "'");
  for (size_t part = 0; part < kErrorParts.size(); ++part)
    if (member(kErrorParts[part]) != error.parts[part])
      breaches.push_back("the JSON says '" + member(kErrorParts[part]) + "' under " + std::string(kErrorParts[part]));
  const base::Json* said_status = base::find_member(said, "exit_status");
  if (said_status == nullptr || base::as_integer(*said_status) != status)
    breaches.push_back("the JSON says exit_status " +
                       (said_status == nullptr ? "nowhere" : base::to_text(*said_status)));
}

inline void judge_json(const Ending& ending, const std::optional<PrintedError>& error, Breaches& breaches) {
  base::Json object;
  try {
    object = base::parse_json(ending.out, base::Code::E1202, "stdout");
  } catch (const base::Error& not_json) {
    return breaches.push_back("stdout is not one JSON value: " + not_json.problem().got + " at " +
                              not_json.problem().where);
  }
  if (base::printable(ending.out) != ending.out) return breaches.push_back("stdout has control characters");
  if (!base::Json::accept(ending.out)) return breaches.push_back("stdout has a bare NaN or Infinity");
  if (!object.is_object()) return breaches.push_back("stdout is JSON, but no object");
  const base::Json* said = base::find_member(object, "error");
  const bool failed = ending.err_unseen ? !is_success(ending.status) : error.has_value();
  if ((said != nullptr) != failed)
    return breaches.push_back(failed ? "the JSON says no error" : "the JSON says an error that stderr does not");
  if (said != nullptr && error) judge_error_member(*said, *error, ending.status, breaches);
}

inline std::optional<PrintedError> judge_err(const Ending& ending, Breaches& breaches) {
  if (base::printable(ending.err) != ending.err)
    breaches.push_back("stderr has control characters, or is no UTF-8 text");
  const std::vector<std::string> lines = lines_of(ending.err);
  std::vector<size_t> errors;
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].starts_with("error E")) errors.push_back(i);
  if (is_success(ending.status) && !errors.empty())
    breaches.push_back("status " + std::to_string(ending.status) + " with '" + lines[errors[0]] + "'");
  if (!is_success(ending.status) && errors.size() != 1)
    breaches.push_back("status " + std::to_string(ending.status) + " with " + std::to_string(errors.size()) +
                       " errors");
  if (errors.size() != 1) return std::nullopt;
  PrintedError error = read_error(lines, errors[0], breaches);
  judge_parts(error, breaches);
  const std::optional<base::Code> code = code_named(error.code);
  if (code && ending.status != base::exit_status(base::class_of(*code)))
    breaches.push_back("status " + std::to_string(ending.status) + " is not that of " + error.code);
  return error;
}

/// Of a command whose messages nobody has seen; a status of class internal is a defect here too.
inline void judge_status(int status, Breaches& breaches) {
  bool is_documented = is_success(status);
  for (const base::ErrorClass cls : {base::ErrorClass::user, base::ErrorClass::does_not_fit,
                                     base::ErrorClass::environment, base::ErrorClass::not_comparable})
    is_documented |= status == base::exit_status(cls);
  if (!is_documented) breaches.push_back("status " + std::to_string(status) + " is not documented");
}

}  // namespace error_contract

/// One sentence for each breach of the contract; none where it is kept.
inline std::vector<std::string> breaches_of(const Ending& ending) {
  using namespace error_contract;
  if (ending.hung) return {"it hangs"};
  if (ending.signal != 0) return {"signal " + std::to_string(ending.signal) + " ended it"};
  Breaches breaches;
  std::optional<PrintedError> error;
  if (ending.err_unseen)
    judge_status(ending.status, breaches);
  else
    error = judge_err(ending, breaches);
  const bool stopped_at_once = ending.status == base::kInterruptedStatus && ending.out.empty();
  if (ending.json && !stopped_at_once) judge_json(ending, error, breaches);
  return breaches;
}

/// The same of an error that a part of the program raised, before a command prints it.
inline std::vector<std::string> breaches_of(const base::Error& error) {
  return breaches_of(Ending{.status = error.exit_status(), .err = "error " + std::string(error.what()) + "\n"});
}

}  // namespace megacpp::testing_support
