// SPDX-License-Identifier: Apache-2.0
// What the mixers with memory along the sequence share where it is stored as several equal runs of tokens
// (Parallel::sequence_chunks): they work on all runs side by side, from nothing, and add what reaches a run from the
// runs before it, through summaries that are small beside the tokens. Runs are a dimension of their own after the
// batch, so that a layout may split both: [b, K, l, ..] for K runs of l tokens. One run is [b, s, ..], without that
// dimension, and is handed through unchanged.
#pragma once

#include "megacpp/blocks/block.h"

namespace megacpp::blocks {

/// Whether there are several runs; the functions on [b, K, ..] below are for that case only.
inline bool is_chunked(const BuildContext& context) { return context.parallel.sequence_chunks > 1; }

/// [b, K, l, tail..], or [b, s, tail..] of a single run: what to reshape [b, s, ..] to.
ir::Shape chunked_shape(const BuildContext& context, const ir::Shape& tail);

/// [b, K, l, ..] -> [b, K, ..]: the last token of each run.
ValueId at_end(const BuildContext& context, ValueId v);

/// [b, K, ..]: each run gets what the run before it in time holds; the first in time gets zero. `tail` names the
/// dimensions after K: the result lies with its run again, for what follows is done run by run.
ValueId shift_in_time(const BuildContext& context, ValueId v, const std::vector<Dim>& tail);

/// The state at the start of each run [b, K, ..], where a run turns the state h at its start into decay * h + ended at
/// its end. `decay` is [b, K, ..] with as many of the dimensions of `ended` as it depends on; `tail` as above.
ValueId carry_in_time(const BuildContext& context, ValueId decay, ValueId ended, const std::vector<Dim>& tail);

/// Depthwise causal convolution of x [b, s, c] by a weight [c, width] of the block; `channels` names c.
ValueId convolve(const BuildContext& context, ValueId x, const std::string& weight, Dim channels);

}  // namespace megacpp::blocks
