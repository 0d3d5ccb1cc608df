// SPDX-License-Identifier: Apache-2.0
// The members of what an estimate tells, as JSON has them (base/record.h). For .cpp files.
#pragma once

#include <algorithm>

#include "megacpp/core/base/record.h"
#include "megacpp/hardware/fit/islands.h"
#include "megacpp/hardware/fit/parameter_bytes.h"
#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/program/plan/next_step.h"

namespace megacpp::fit {

template <typename Visit, base::Is<AxisIsland> Self>
void visit_fields(const Visit& visit, Self& island) {
  visit("axis", island.axis);
  visit("chips", island.size);
  visit("link", island.link.name);
  visit("bytes_per_second", island.link.ring.bytes_per_second);
  visit("domains", island.domains, "fast ones that its widest group spans");
  visit("where", island.where);
}

template <typename Visit, base::Is<Crossing> Self>
void visit_fields(const Visit& visit, Self& crossing) {
  visit("axis", crossing.island.axis);
  visit("key", crossing.key);
  visit("link", crossing.island.link.name);
  visit("seconds", crossing.seconds, "of a step on the wire over groups of this axis");
  visit("inside_link", crossing.inside_link);
  visit("inside_seconds", crossing.inside_seconds);
  visit("nearest", crossing.nearest ? std::optional(plan::overrides_of(*crossing.nearest)) : std::nullopt);
  visit("warning", to_text(crossing));
}

template <typename Visit, base::Is<ReservedTerm> Self>
void visit_fields(const Visit& visit, Self& term) {
  visit("name", term.name);
  visit("bytes", term.bytes);
  visit("sentence", term.sentence);
}

template <typename Visit, base::Is<LinkTime> Self>
void visit_fields(const Visit& visit, Self& link) {
  visit("axes", link.axes);
  visit("link", link.link);
  visit("bytes", link.bytes, "a chip sends");
  visit("bytes_per_second", link.bytes_per_second);
  visit("seconds", link.seconds);
  visit("exposed_seconds", link.exposed, "while nothing is computed");
  visit("overlapped_seconds", std::max(0.0, link.seconds - link.exposed));
}

template <typename Visit, base::Is<OpTime> Self>
void visit_fields(const Visit& visit, Self& op) {
  visit("program", op.program);
  visit("op", op.op);
  visit("calls", op.calls, "in a step");
  visit("seconds", op.seconds);
  visit("limit_seconds", op.limit, "at peak rates");
}

template <typename Visit, base::Is<StoredTensor> Self>
void visit_fields(const Visit& visit, Self& tensor) {
  visit("name", tensor.name);
  visit("spec", tensor.spec);
  visit("dtype", tensor.dtype);
  visit("local", tensor.local, "what the chip holds");
  visit("bytes", tensor.bytes, "with padding");
  visit("layout", tensor.layout);
}

template <typename Visit, base::Is<StoredParameter> Self>
void visit_fields(const Visit& visit, Self& parameter) {
  visit("name", parameter.name);
  visit("stage", parameter.stage);
  visit("shape", parameter.shape);
  visit("computed", parameter.computed);
  visit("weight", parameter.weight);
  visit("gradient", parameter.trainable ? std::optional(parameter.gradient) : std::nullopt);
  visit("optimizer_state", parameter.state);
  visit("bytes", parameter.bytes());
  visit("why", parameter.why);
}

template <typename Visit, base::Is<ArgumentBytes> Self>
void visit_fields(const Visit& visit, Self& arguments) {
  visit("bytes", arguments.total());
  visit("weight_bytes", arguments.weights);
  visit("optimizer_bytes", arguments.optimizer);
  visit("batch_bytes", arguments.batch);
  visit("padding_bytes", arguments.padding, "part of these");
}

}  // namespace megacpp::fit
