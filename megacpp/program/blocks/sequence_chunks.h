// SPDX-License-Identifier: Apache-2.0
// What the mixers with memory along the sequence share where it is stored as several equal runs of tokens
// (Parallel::sequence_chunks): they work on all runs side by side, from nothing, and add what reaches a run from the
// runs before it, through summaries that are small beside the tokens. Runs are a dimension of their own after the
// batch, so that a layout may split both: [b, K, l, ..] for K runs of l tokens. One run is [b, s, ..], without that
// dimension, and is handed through unchanged.
#pragma once

#include <optional>

#include "megacpp/program/blocks/block.h"

namespace megacpp::blocks {

/// Whether there are several runs; the functions on [b, K, ..] below are for that case only.
inline bool is_chunked(const BuildContext& context) { return context.parallel.sequence_chunks > 1; }

/// [b, K, l, tail..], or [b, s, tail..] of a single run: what to reshape [b, s, ..] to.
ir::Shape chunked_shape(const BuildContext& context, const ir::Shape& tail);

/// Places of tokens in their documents, i32[b, K, l] or [b, s] of a single run; nothing where documents do not count.
std::optional<ValueId> document_positions(const BuildContext& context);

/// decay [b, K, l, ..] from the start of a run to each token, zero once a document has begun in the run.
ValueId until_document(const BuildContext& context, ValueId decay);
/// decay [b, K, l, ..] from each token to the end of its run, zero where a later document has begun.
ValueId since_document(const BuildContext& context, ValueId decay);

/// [b, K, l, ..] -> [b, K, ..]: the last token of each run.
ValueId at_end(const BuildContext& context, ValueId v);

/// The state at the start of each run [b, K, ..], where a run turns the state h at its start into decay * h + ended at
/// its end. `decay` is [b, K, ..] with as many of the dimensions of `ended` as it depends on; `tail` names those of
/// `ended` after K, none of which is split but those of `decay`.
ValueId carry_in_time(const BuildContext& context, ValueId decay, ValueId ended, const std::vector<Dim>& tail);

struct Convolution {
  ValueId x;           // [b, s, c]
  std::string weight;  // [c, width], of the block
};

/// Depthwise causal convolutions of one width, each [b, s, c]. The tokens they look back to travel together.
std::vector<ValueId> convolve(const BuildContext& context, const std::vector<Convolution>& each);

/// What is said of the collectives of such a mixer.
std::vector<CollectiveAdvice> sequence_advice();

}  // namespace megacpp::blocks
