// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/ceilings.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace megacpp::compare {
namespace {

using receipt::Receipt;

constexpr int64_t kStepsToCount = 2;  // the second one has everything that a run holds

// What was killed may have been killed for its memory, and what failed or goes on has shown nothing yet.
bool has_run(const Receipt& receipt) {
  const receipt::Ending& ending = receipt.ending;
  const bool ended_well =
      ending.kind == receipt::EndingKind::finished || ending.kind == receipt::EndingKind::interrupted;
  return ended_well && ending.steps - ending.first_step >= kStepsToCount;
}

// What planning chose by itself (receipt::kAutoChoice) depends on the shape, which is what is looked for.
std::string requested_recompute(const std::string& recompute) {
  std::string text;
  for (size_t begin = 0; begin < recompute.size();) {
    const size_t end = std::min(recompute.find(' ', begin), recompute.size());
    const std::string word = recompute.substr(begin, end - begin);
    const size_t choice = word.find(receipt::kAutoChoice);
    text += (text.empty() ? "" : " ") + (choice == std::string::npos ? word : word.substr(0, choice) + "auto");
    begin = end + 1;
  }
  return text;
}

Ceiling place_of(const Receipt& receipt) {
  const receipt::Header& header = receipt.header;
  const receipt::Program& program = header.program;
  return {.model = header.model.name + " " + header.model.hash,
          .family = header.model.family,
          .topology = header.hardware.name + (header.hardware.mesh.empty() ? "" : " " + header.hardware.mesh),
          .lane = fmt::format("{} {} {}{}", program.lane, program.layout, program.precision,
                              program.recompute.empty() ? "" : " recompute " + requested_recompute(program.recompute))};
}

using Place = std::tuple<std::string, std::string, std::string>;
using Size = std::pair<int64_t, int64_t>;  // tokens, length

struct Shapes {
  Ceiling ceiling;
  std::map<Size, TriedShape> tried;
};

void settle(Shapes& shapes, size_t times) {
  Ceiling& ceiling = shapes.ceiling;
  for (const auto& [size, shape] : shapes.tried) {
    if (shape.ran > 0) ceiling.single_peak = shape;
    if (shape.ran >= times && shape.out_of_memory == 0) ceiling.validated = shape;
    if (shape.ran == 0 && shape.out_of_memory > 0 && !ceiling.too_large) ceiling.too_large = shape;
  }
  if (ceiling.validated && ceiling.single_peak && ceiling.validated->tokens() == ceiling.single_peak->tokens() &&
      ceiling.validated->sequence == ceiling.single_peak->sequence)
    ceiling.single_peak.reset();
}

}  // namespace

std::vector<Ceiling> ceilings_of(Receipts receipts, size_t times) {
  std::map<Place, Shapes> places;
  for (const Receipt& receipt : receipts) {
    const bool ran = has_run(receipt), ran_out = receipt.ending.kind == receipt::EndingKind::out_of_memory;
    if (!ran && !ran_out) continue;
    const Ceiling place = place_of(receipt);
    Shapes& shapes = places[{place.model, place.topology, place.lane}];
    shapes.ceiling = place;
    const receipt::BatchShape& batch = receipt.header.batch;
    TriedShape& shape = shapes.tried[{batch.batch * batch.sequence, batch.sequence}];
    shape.batch = batch.batch;
    shape.sequence = batch.sequence;
    shape.ran += ran ? 1 : 0;
    shape.out_of_memory += ran_out ? 1 : 0;
  }
  std::vector<Ceiling> ceilings;
  for (auto& [place, shapes] : places) {
    settle(shapes, times);
    ceilings.push_back(std::move(shapes.ceiling));
  }
  return ceilings;
}

}  // namespace megacpp::compare
