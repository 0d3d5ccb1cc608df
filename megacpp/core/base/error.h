// SPDX-License-Identifier: Apache-2.0
// Errors that end a command. Five classes, each with its exit status; every error has a code of error_codes.h.
// A user reads: code, where, got, wanted, next step, in that order. Expected negatives are not errors: see decision.h.
#pragma once

#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "megacpp/core/base/error_codes.h"

namespace megacpp::base {

enum class ErrorClass { user, does_not_fit, environment, not_comparable, internal };

enum class Code {
#define MEGACPP_CODE(code, cls, title) code,
  MEGACPP_ERROR_CODES(MEGACPP_CODE)
#undef MEGACPP_CODE
};

std::string_view code_name(Code code);   // "E1001"
std::string_view code_title(Code code);  // "unknown recipe key"
/// Of a code's name; nothing: it is none.
std::optional<Code> code_named(std::string_view name);
ErrorClass class_of(Code code);
int exit_status(ErrorClass cls);
/// Of errors of several processes, which one decides how all end: what a new start does not mend counts above what it
/// may (environment).
bool is_graver(Code one, Code other);
inline constexpr int kInterruptedStatus = 130;

/// What went wrong, in the order a user needs it. No field is empty when a user reads it: an empty next step becomes
/// the one that docs/errors.md has for the code. Bytes that are no UTF-8, and control characters, are escaped.
struct Problem {
  std::string where = {};  // recipe line, op name, file
  std::string got = {};
  std::string wanted = {};
  std::string next = {};  // the next step to take
  /// Of an error that follows one of another chip or process: that one's code, whose exit status it has. All processes
  /// of a run so end alike, whichever a launcher looks at.
  std::optional<Code> cause = {};
};

class Error : public std::runtime_error {
 public:
  Error(Code code, Problem problem);
  Code code() const { return code_; }
  const Problem& problem() const { return problem_; }
  int exit_status() const { return base::exit_status(class_of(problem_.cause.value_or(code_))); }

 private:
  Code code_;
  Problem problem_;
};

[[noreturn]] void raise(Code code, Problem problem);

/// Collects the message of a failed MEGACPP_CHECK; built only on failure.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  template <typename T>
  CheckFailure& operator<<(const T& part) {
    text_ << part;
    return *this;
  }
  [[noreturn]] void raise() const;

 private:
  std::ostringstream text_;
  std::string where_;
};

struct CheckRaiser {
  [[noreturn]] void operator&(const CheckFailure& failure) const { failure.raise(); }
};

}  // namespace megacpp::base

/// An invariant of ours: failing it is our bug (InternalError, exit 70). On in every build type.
#define MEGACPP_CHECK(condition)     \
  (condition) ? static_cast<void>(0) \
              : ::megacpp::base::CheckRaiser{} & ::megacpp::base::CheckFailure(__FILE__, __LINE__, #condition)

/// A demand on what the user gave. The Problem (designated initialisers, in parentheses) is built only on failure.
#define MEGACPP_REQUIRE(condition, code, ...)                                                                    \
  do {                                                                                                           \
    if (!(condition)) ::megacpp::base::raise(::megacpp::base::Code::code, ::megacpp::base::Problem __VA_ARGS__); \
  } while (false)
