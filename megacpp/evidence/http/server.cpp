// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/server.h"

#include "megacpp/core/base/error.h"
#ifdef MEGACPP_HAS_HTTPLIB
#include "megacpp/evidence/http/httplib/httplib_server.h"
#endif

namespace megacpp::http {

#ifdef MEGACPP_HAS_HTTPLIB

base::Decision can_listen() { return base::Decision::yes(); }

std::unique_ptr<Server> serve(const Listen& listen, const std::function<Responder(int port)>& responder) {
  return serve_by_httplib(listen, responder);
}

#else

base::Decision can_listen() { return base::Decision::no("a program that was built without the library cpp-httplib"); }

std::unique_ptr<Server> serve(const Listen& listen, const std::function<Responder(int port)>&) {
  base::raise(base::Code::E3004, {.where = listen.where,
                                  .got = can_listen().reason(),
                                  .wanted = "one that was built with it",
                                  .next = "install the package libcpp-httplib-dev, then configure and build again"});
}

#endif

}  // namespace megacpp::http
