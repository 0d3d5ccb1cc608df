// SPDX-License-Identifier: Apache-2.0
// The endpoint with cpp-httplib.
#pragma once

#include <memory>

#include "megacpp/metrics/metrics_server.h"

namespace megacpp::metrics {

std::unique_ptr<MetricsServer> start_http_metrics_server(int port);

}  // namespace megacpp::metrics
