// SPDX-License-Identifier: Apache-2.0
// What a search over plans found, for people and programs: table, picture, JSON, page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "megacpp/cli/correction_report.h"
#include "megacpp/cli/json.h"
#include "megacpp/hardware/catalog/rank.h"
#include "megacpp/hardware/fit/grow.h"
#include "megacpp/hardware/fit/search.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/run/launch/confirm.h"

namespace megacpp::cli {

/// A step as a row shows it.
struct ShownStep {
  double seconds = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  bool is_measured = false;  // by a launch that the catalog remembers; else predicted

  std::string seconds_text() const;  // "210.00 ms measured"
};

/// The worst chip as a row shows it.
struct ShownMemory {
  int64_t needed = 0;        // bytes
  int64_t limit = 0;         //
  int64_t shared_limit = 0;  // of the machine whose memory its chips share; 0: they do not
  int64_t free = 0;          // below 0: too few
  fit::FitVerdict verdict = fit::FitVerdict::fits;
  bool is_measured = false;  // by the hardware or its compiler, which were asked; else planned

  /// "77 %" of the limit; of chips that share a machine's memory what all of them need. "-" where none is left.
  std::string share_text() const;
  /// "1.20 GiB", "-3.00 MiB" where it does not fit, "40.00 MiB close" where a compiler may need more than is free,
  /// "3.00 MiB over, close" where it may need so little that it fits and is not expected to,
  /// "1.20 GiB measured", "1.20 GiB, ran out" where the plan fits and what was seen does not. What hosts beside the
  /// chips have only a launch asks: no search exceeds it.
  std::string free_text() const;
};

struct FitAnswer {
  hw::Slice slice;  // "v6e:16x16"
  recipe::Recipe recipe;
  std::string step_basis = {};  // what predicted times stand for
  fit::LayoutSearch search = {};
  std::vector<catalog::Ranked> known;       // of search.found; empty without a catalog
  std::vector<LaneCorrection> corrections;  // of the peaks and times that are shown
  std::vector<size_t> front;                // of search.found, by the bytes, times and verdicts that are shown
  std::vector<launch::Confirmed> confirmed;
  std::string no_confirmation;  // why the hardware was not asked, and what to run instead
  std::string other_compiler;   // of the compiler that was asked, where plans were made by rules of another one
  double seconds = 0;           // the search took

  /// Indices into search.found, best first, by what is shown: what fits and then what is close, both by time; the rest
  /// as found; what the hardware had too little memory for comes last.
  std::vector<size_t> order() const;
  bool is_on_front(size_t found) const;
  /// The time that decides the order: what was measured when the hardware was asked, else what the catalog has measured
  /// or corrected, else what was predicted.
  ShownStep step_of(size_t found) const;
  /// The bytes and the verdict, in the same way.
  ShownMemory memory_of(size_t found) const;
  /// That of the first.
  fit::FitVerdict verdict() const;
  /// The fastest of those that are close, where it is faster than the first: what the compiler should be asked about.
  std::optional<size_t> faster_close() const;
  /// Of every layout found, what a front is made of.
  std::vector<fit::FrontPoint> points() const;
};

/// "--set layout.zero=3 --set train.batch=8"; nothing to set: "as it is".
std::string set_words(const plan::Changes& changes);

/// What close means, where something found is; else empty.
std::string close_note(const FitAnswer& answer);

/// The first `top` and all of the front.
std::string fit_text(const FitAnswer& answer, size_t top);
Json fit_json(const FitAnswer& answer);
/// Bytes against time: '*' on the front, 'o' beside it, '~' close, 'x' does not fit, '|' the limit.
std::string scatter_text(const FitAnswer& answer);
/// A page of its own: the picture and the table.
std::string fit_page(const FitAnswer& answer);

std::string growth_text(const std::string& hardware, const recipe::Recipe& recipe, const fit::Growth& growth);
Json growth_json(const std::string& hardware, const recipe::Recipe& recipe, const fit::Growth& growth);

/// E1401 that says what was left out of a search which found nothing, and why.
base::Error no_layout(const FitAnswer& answer);
/// E2001 that names the least that was found, its worst chip, and what its bytes are for.
base::Error nothing_fits(const std::string& hardware, const fit::Found& smallest);
/// E2001 where nothing that is shown fits or is close: nothing_fits where no plan does either, else what says that each
/// was seen to run out of memory. Nothing where the first fits or is close, also one that was seen to run though its
/// plan does not fit.
std::optional<base::Error> refusal_of(const FitAnswer& answer);

}  // namespace megacpp::cli
