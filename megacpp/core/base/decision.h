// SPDX-License-Identifier: Apache-2.0
// An expected yes or no. A no always carries its reason; a yes needs none.
#pragma once

#include <string>
#include <utility>

namespace megacpp::base {

class Decision {
 public:
  static Decision yes() { return Decision(true, ""); }
  static Decision no(std::string reason) { return Decision(false, std::move(reason)); }
  explicit operator bool() const { return allowed_; }
  const std::string& reason() const { return reason_; }

 private:
  Decision(bool allowed, std::string reason) : allowed_(allowed), reason_(std::move(reason)) {}
  bool allowed_;
  std::string reason_;
};

}  // namespace megacpp::base
