// SPDX-License-Identifier: Apache-2.0
#include "megacpp/metrics/metrics_server.h"

#include "megacpp/base/error.h"
#ifdef MEGACPP_HAS_HTTPLIB
#include "megacpp/metrics/httplib/http_metrics_server.h"
#endif

namespace megacpp::metrics {

std::unique_ptr<MetricsServer> start_metrics_server([[maybe_unused]] int port) {
#ifdef MEGACPP_HAS_HTTPLIB
  return start_http_metrics_server(port);
#else
  base::raise(base::Code::E1007, {.where = "--metrics-port",
                                  .got = "a program that was built without the library cpp-httplib",
                                  .wanted = "one that was built with it",
                                  .next = "install the package libcpp-httplib-dev, then configure and build again"});
#endif
}

}  // namespace megacpp::metrics
