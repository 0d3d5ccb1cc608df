// SPDX-License-Identifier: Apache-2.0
// The members of memory that ran out, as JSON has them (base/record.h). For .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/hardware/catalog/oom_report.h"

namespace megacpp::catalog {

template <typename Visit, base::Is<OomSubject> Self>
void visit_fields(const Visit& visit, Self& subject) {
  visit("model", subject.model);
  visit("pattern", subject.pattern);
  visit("depth", subject.depth);
  visit("hidden", subject.hidden);
  visit("batch", subject.batch);
  visit("sequence", subject.sequence);
  visit("micro_steps", subject.micro_steps);
  visit("precision", subject.precision);
  visit("layout", subject.layout);
  visit("mesh", subject.mesh);
  visit("hardware", subject.hardware);
  visit("backend", subject.backend);
}

template <typename Visit, base::Is<OomBytes> Self>
void visit_fields(const Visit& visit, Self& bytes) {
  visit("what", bytes.what);
  visit("scope", bytes.scope);
  visit("bytes", bytes.bytes);
}

template <typename Visit, base::Is<Reduction> Self>
void visit_fields(const Visit& visit, Self& reduction) {
  visit("rung", reduction.rung, "from 1, in the order of the recipe's ladder");
  visit("name", reduction.name, "of the rung");
  visit("settings", reduction.settings, "what it changes; empty: the rung was skipped whole");
  visit("outcome", reduction.outcome, "fits, close, not enough, skipped or refused");
  visit("reason", reduction.reason);
  visit("needed_bytes", reduction.needed_bytes, "of the worst chip with it");
  visit("limit_bytes", reduction.limit_bytes, "that the chip may use");
}

template <typename Visit, base::Is<OomReport> Self>
void visit_fields(const Visit& visit, Self& report) {
  visit("code", report.code);
  visit("class", report.oom_class);
  visit("phase", report.phase);
  visit("step", report.step);
  visit("first_step", report.first_step);
  visit("chip", report.chip);
  visit("wanted_bytes", report.wanted_bytes);
  visit("limit_bytes", report.limit_bytes);
  visit("injected", report.is_injected);
  visit("subject", report.subject);
  visit("roles", report.roles);
  visit("largest", report.largest);
  visit("reductions", report.reductions);
  visit("ending", report.ending);
  visit("message", report.message);
}

}  // namespace megacpp::catalog
