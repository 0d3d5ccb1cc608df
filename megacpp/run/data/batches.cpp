// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/batches.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"

namespace megacpp::data {

Batches::Batches(const TokenSource& source, const BatchOptions& options)
    : source_(source),
      options_(options),
      all_rows_(static_cast<size_t>(options.batch)),
      tokens_(static_cast<size_t>(options.sequence) + 1),
      segments_(static_cast<size_t>(options.sequence)) {
  std::iota(all_rows_.begin(), all_rows_.end(), 0);
  const bool is_held_out = options.draw.part == Draw::Part::held_out;
  MEGACPP_REQUIRE(source.sequences(options.draw, options.sequence) > 0, E1101,
                  {.where = is_held_out ? "data.held_out" : "data",
                   .got = source.describe(),
                   .wanted = fmt::format("at least {} tokens{}: one sequence and the token after it",
                                         options.sequence + 1, is_held_out ? " held out" : ""),
                   .next = is_held_out ? "raise data.held_out, give more data or a smaller train.sequence"
                                       : "give more text (data.text, data.blend) or a smaller train.sequence"});
  MEGACPP_REQUIRE(options.vocab >= source.vocabulary(), E1102,
                  {.where = "model.vocab",
                   .got = std::to_string(options.vocab),
                   .wanted = fmt::format("at least {}: tokens are bytes", source.vocabulary()),
                   .next = fmt::format("set model.vocab: {}", source.vocabulary())});
}

int64_t Batches::first_sample(int64_t step, int64_t micro_step) const {
  const int64_t micros = (step - options_.first_step) * options_.micro_steps + micro_step;
  return options_.start.samples_consumed + micros * options_.batch;
}

void Batches::fill(int64_t step, int64_t micro_step, MicroBatch& micro) const {
  fill_rows(step, micro_step, all_rows_, micro);
}

void Batches::fill_rows(int64_t step, int64_t micro_step, std::span<const int64_t> rows, MicroBatch& micro) const {
  const auto size = static_cast<size_t>(options_.batch * options_.sequence);
  for (const auto* part : {&micro.ids, &micro.labels, &micro.segments, &micro.document_positions})
    MEGACPP_CHECK(part->empty() || part->size() == size) << part->size() << " tokens";
  const int64_t first = first_sample(step, micro_step);
  for (const int64_t row : rows) fill_row(first + row, static_cast<size_t>(row), micro);
}

void Batches::fill_row(int64_t sample, size_t row, MicroBatch& micro) const {
  const bool has_documents = !micro.segments.empty() || !micro.document_positions.empty();
  source_.read(options_.draw, sample, tokens_, has_documents ? std::span(segments_) : std::span<int32_t>());
  for (const int32_t token : tokens_)
    MEGACPP_REQUIRE(
        token >= 0 && token < options_.vocab, E1102,
        {.where = fmt::format("sample {} of {}", sample, source_.describe()),
         .got = fmt::format("token {}", token),
         .wanted = fmt::format("tokens from 0 to {}: model.vocab is {}", options_.vocab - 1, options_.vocab),
         .next = "set model.vocab to that of the tokenizer the data was made with; megacpp data show "
                 "prints the largest token of a dataset"});
  const size_t length = segments_.size(), at = row * length;
  const auto place = [&](std::vector<int32_t>& to, auto from) {
    if (!to.empty()) std::copy_n(from, length, to.begin() + static_cast<std::ptrdiff_t>(at));
  };
  place(micro.ids, tokens_.begin());
  place(micro.labels, tokens_.begin() + 1);
  place(micro.segments, segments_.begin());
  if (micro.document_positions.empty()) return;
  int32_t position = 0;
  for (size_t i = 0; i < length; ++i) {
    position = i > 0 && segments_[i] == segments_[i - 1] ? position + 1 : 0;
    micro.document_positions[at + i] = position;
  }
}

}  // namespace megacpp::data
