// SPDX-License-Identifier: Apache-2.0
// An environment variable with another value for as long as the object lives.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace megacpp::testing_support {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace megacpp::testing_support
