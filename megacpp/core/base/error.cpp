// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/error.h"

#include <algorithm>
#include <array>
#include <utility>

#include "megacpp/core/base/utf8.h"

namespace megacpp::base {
namespace {

struct CodeRecord {
  std::string_view name;
  ErrorClass cls;
  std::string_view title;
};

constexpr std::array kCodes = {
#define MEGACPP_CODE(code, cls, title) CodeRecord{#code, ErrorClass::cls, title},
    MEGACPP_ERROR_CODES(MEGACPP_CODE)
#undef MEGACPP_CODE
};

const CodeRecord& record(Code code) { return kCodes.at(static_cast<size_t>(code)); }

std::string message(Code code, const Problem& problem) {
  std::string text = std::string(code_name(code)) + " " + std::string(code_title(code));
  text += "\n  where:  " + problem.where;
  text += "\n  got:    " + problem.got;
  text += "\n  wanted: " + problem.wanted;
  text += "\n  next:   " + problem.next;
  return text;
}

/// The lines of a part stand below its first one: plugins say texts of many lines, and a name may hold what looks like
/// another part, another error or a line of a table.
std::string within_part(std::string text) {
  constexpr std::string_view kColumn = "          ";
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    if (const auto line = std::string_view(text).substr(at + 1); !line.empty() && !line.starts_with(kColumn))
      text.insert(at + 1, kColumn);
  return text;
}

/// Parts come from arguments and files, with whatever bytes these hold. What is the same for every error of a code, its
/// title and its documentation have.
Problem complete(Code code, const Problem& problem) {
  const auto part = [](const std::string& text, const std::string& otherwise) {
    return text.empty() ? otherwise : within_part(printable(text));
  };
  const std::string section = std::string(code_name(code)) + " in docs/errors.md";
  return {.where = problem.where.empty() ? "megacpp" : printable_in_line(problem.where),
          .got = part(problem.got, std::string(code_title(code))),
          .wanted = part(problem.wanted, "what stands under " + section),
          .next = part(problem.next, "see " + section),
          .cause = problem.cause};
}

}  // namespace

std::string_view code_name(Code code) { return record(code).name; }
std::string_view code_title(Code code) { return record(code).title; }
ErrorClass class_of(Code code) { return record(code).cls; }

std::optional<Code> code_named(std::string_view name) {
  for (size_t code = 0; code < kCodes.size(); ++code)
    if (kCodes[code].name == name) return static_cast<Code>(code);
  return std::nullopt;
}

bool is_graver(Code one, Code other) {
  constexpr std::array kLeastFirst = {ErrorClass::environment, ErrorClass::not_comparable, ErrorClass::user,
                                      ErrorClass::does_not_fit, ErrorClass::internal};
  const auto gravity = [&](Code code) { return std::ranges::find(kLeastFirst, class_of(code)) - kLeastFirst.begin(); };
  return gravity(one) > gravity(other);
}

int exit_status(ErrorClass cls) {
  switch (cls) {
    case ErrorClass::user:
      return 2;
    case ErrorClass::does_not_fit:
      return 3;
    case ErrorClass::environment:
      return 1;
    case ErrorClass::not_comparable:
      return 4;
    case ErrorClass::internal:
      return 70;
  }
  return 70;
}

Error::Error(Code code, Problem problem)
    : std::runtime_error(message(code, complete(code, problem))), code_(code), problem_(complete(code, problem)) {}

void raise(Code code, Problem problem) { throw Error(code, std::move(problem)); }

CheckFailure::CheckFailure(const char* file, int line, const char* condition)
    : where_(std::string(file) + ":" + std::to_string(line) + " " + condition) {}

void CheckFailure::raise() const {
  base::raise(Code::E9001, {.where = where_,
                            .got = text_.str().empty() ? "it does not hold" : text_.str(),
                            .wanted = "a condition that always holds",
                            .next = "this is a defect of megacpp: please report it with the command and the recipe"});
}

}  // namespace megacpp::base
