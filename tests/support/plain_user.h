// SPDX-License-Identifier: Apache-2.0
// File permissions bind for as long as the object lives, also where tests run as root, who may write anything.
#pragma once

#include <unistd.h>

namespace megacpp::testing_support {

class PlainUser {
 public:
  PlainUser() {
    if (was_root_ && ::seteuid(kNobody) != 0) _exit(70);
  }
  ~PlainUser() {
    if (was_root_ && ::seteuid(0) != 0) _exit(70);
  }
  PlainUser(const PlainUser&) = delete;
  PlainUser& operator=(const PlainUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const bool was_root_ = ::geteuid() == 0;
};

}  // namespace megacpp::testing_support
