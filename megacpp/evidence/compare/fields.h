// SPDX-License-Identifier: Apache-2.0
// The members of a comparison of two runs, and of the largest shapes that ran, as JSON has them (base/record.h). For
// .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/core/stats/fields.h"
#include "megacpp/evidence/compare/ceilings.h"
#include "megacpp/evidence/compare/comparison.h"

namespace megacpp::compare {

template <typename Visit, base::Is<Change> Self>
void visit_fields(const Visit& visit, Self& change) {
  visit("name", change.name);
  visit("baseline", change.baseline);
  visit("other", change.other);
}

template <typename Visit, base::Is<FieldChange> Self>
void visit_fields(const Visit& visit, Self& change) {
  visit("name", change.name);
  visit("baseline", change.baseline);
  visit("other", change.other);
  visit("follows_from", change.follows_from);
}

template <typename Visit, base::Is<Differences> Self>
void visit_fields(const Visit& visit, Self& differences) {
  visit("fields", differences.fields);
  visit("axes", differences.axes);
  visit("unmeasured", differences.unmeasured);
  visit("other_family", differences.has_other_family);
}

template <typename Visit, base::Is<PartMove> Self>
void visit_fields(const Visit& visit, Self& move) {
  visit("part", move.part);
  visit("baseline", move.baseline, "seconds");
  visit("other", move.other);
  visit("notes", move.notes);
}

template <typename Visit, base::Is<TimeMoves> Self>
void visit_fields(const Visit& visit, Self& moves) {
  visit("baseline_seconds", moves.baseline);
  visit("other_seconds", moves.other);
  visit("parts", moves.parts);
  visit("unexplained_seconds", moves.unexplained);
  visit("cause", moves.cause);
}

template <typename Visit, base::Is<RoleMove> Self>
void visit_fields(const Visit& visit, Self& move) {
  visit("role", move.role);
  visit("family", move.family);
  visit("baseline", move.baseline, "bytes");
  visit("other", move.other);
}

template <typename Visit, base::Is<ChipMove> Self>
void visit_fields(const Visit& visit, Self& move) {
  visit("place", move.place);
  visit("baseline", move.baseline, "bytes");
  visit("other", move.other);
}

template <typename Visit, base::Is<MemoryMoves> Self>
void visit_fields(const Visit& visit, Self& moves) {
  visit("baseline_bytes", moves.baseline);
  visit("other_bytes", moves.other);
  visit("roles", moves.roles);
  visit("chips", moves.chips);
  visit("unexplained_bytes", moves.unexplained);
}

template <typename Visit, base::Is<Objection> Self>
void visit_fields(const Visit& visit, Self& objection) {
  visit("run", objection.run);
  visit("reason", objection.sentence);
  visit("next", objection.next);
}

template <typename Visit, base::Is<Comparison> Self>
void visit_fields(const Visit& visit, Self& comparison) {
  visit("baseline", comparison.baseline_runs);
  visit("other", comparison.other_runs);
  visit("differences", comparison.differences);
  visit("among_repeats", comparison.among_repeats);
  visit("not_comparable", comparison.objections);
  visit("effect", comparison.effect);
  visit("recommended_steps", comparison.recommended_steps);
  visit("time", comparison.time);
  visit("memory", comparison.memory);
}

template <typename Visit, base::Is<TriedShape> Self>
void visit_fields(const Visit& visit, Self& shape) {
  visit("batch", shape.batch);
  visit("sequence", shape.sequence);
  visit("ran", shape.ran);
  visit("out_of_memory", shape.out_of_memory);
}

template <typename Visit, base::Is<Ceiling> Self>
void visit_fields(const Visit& visit, Self& ceiling) {
  visit("model", ceiling.model);
  visit("family", ceiling.family);
  visit("topology", ceiling.topology);
  visit("lane", ceiling.lane);
  visit("validated", ceiling.validated);
  visit("single_peak", ceiling.single_peak);
  visit("too_large", ceiling.too_large);
}

}  // namespace megacpp::compare
