// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/thread.h"

#include <system_error>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::base {

std::thread start_thread(const std::string& purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    raise(Code::E3002, {.where = "thread for " + purpose,
                        .got = error.code().message(),
                        .wanted = "one thread more, with memory for its stack",
                        .next = "raise the limit on memory (ulimit -v) or on threads (ulimit -u) of this process, user "
                                "or container, or start fewer processes on this machine"});
  }
}

}  // namespace megacpp::base
