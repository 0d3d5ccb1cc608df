// SPDX-License-Identifier: Apache-2.0
// The routed part of a feed-forward block: tokens choose experts, or experts tokens, within capacity or without; rows
// travel to the owners of experts and back; what the router says of it is reported.
#pragma once

#include <optional>
#include <vector>

#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/feed_forward.h"

namespace megacpp::blocks {

/// The nonlinearity between the projections, of experts and of dense blocks; `gate` is there where it is gated.
ValueId activated(ops::Builder& b, const FeedForward& f, ValueId up, std::optional<ValueId> gate);

/// How tokens [batch, sequence, hidden] are spread while they are routed.
std::vector<Dim> routed_tokens(const BuildContext& context);

/// x[batch, sequence, hidden] -> the same shape. x is sharded as it is routed, and so is the result, which may be
/// partial sums.
ValueId experts(const BuildContext& context, ValueId x);

}  // namespace megacpp::blocks
