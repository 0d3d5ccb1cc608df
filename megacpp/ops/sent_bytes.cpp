// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/sent_bytes.h"

namespace megacpp::ops {

std::optional<int64_t> sent_bytes(std::string_view op, int64_t own, int64_t parts) {
  if (op == "all_gather") return own * (parts - 1);
  if (op == "reduce_scatter" || op == "all_to_all") return own * (parts - 1) / parts;
  if (op == "all_reduce") return 2 * own * (parts - 1) / parts;
  if (op == "permute" || op == "send" || op == "exchange_sum") return own;
  if (op == "recv") return 0;
  return std::nullopt;
}

}  // namespace megacpp::ops
