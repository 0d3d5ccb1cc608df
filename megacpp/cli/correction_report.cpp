// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/correction_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/utf8.h"

namespace megacpp::cli {
namespace {

using catalog::Correction;

Json errors_json(const catalog::Errors& errors) { return {{"median", errors.median}, {"worst", errors.worst}}; }

Json sources_json(const Correction& correction) {
  Json sources = Json::array();
  const auto add = [&](const std::string& build, size_t samples, bool is_own) {
    sources.push_back(Json{{"build", build}, {"samples", samples}, {"this_build", is_own}});
  };
  if (correction.own_samples > 0) add(catalog::to_text(correction.own), correction.own_samples, true);
  for (const catalog::Source& source : correction.others) add(catalog::to_text(source.build), source.samples, false);
  return sources;
}

}  // namespace

std::string to_text(const LaneCorrection& lane) {
  const Correction& c = lane.correction;
  std::string text = fmt::format("{} corrected by {} measurement{} of {} ({})", lane.quantity, c.samples,
                                 c.samples == 1 ? "" : "s", lane.lane, catalog::sources_text(c));
  if (c.after)
    text += fmt::format(": these were off by {:.1f}% in the median as planned, {:.1f}% corrected by the others",
                        100 * c.before.median, 100 * c.after->median);
  return text;
}

std::string to_text(const std::vector<LaneCorrection>& lanes) {
  std::string text;
  for (const LaneCorrection& lane : lanes)
    if (lane.correction.samples > 0) text += base::printable_in_line(to_text(lane)) + "\n";
  return text;
}

Json to_json(const LaneCorrection& lane) {
  const Correction& c = lane.correction;
  Json json = {{"lane", lane.lane},
               {"quantity", lane.quantity},
               {"samples", c.samples},
               {"samples_of_this_build", c.own_samples},
               {"samples_left_out", c.left_out},
               {"sources", sources_json(c)},
               {"method", catalog::method_name(c.method)},
               {"error_as_planned", errors_json(c.before)}};
  json["error_corrected"] = c.after ? errors_json(*c.after) : Json();
  return json;
}

}  // namespace megacpp::cli
