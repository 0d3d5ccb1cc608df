// SPDX-License-Identifier: Apache-2.0
// The server by cpp-httplib.
#pragma once

#include <functional>
#include <memory>

#include "megacpp/evidence/http/server.h"

namespace megacpp::http {

std::unique_ptr<Server> serve_by_httplib(const Listen& listen, const std::function<Responder(int port)>& responder);

}  // namespace megacpp::http
