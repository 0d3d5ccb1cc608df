// SPDX-License-Identifier: Apache-2.0
// The members of what the catalog keeps (base/record.h): columns of its tables, and what processes of a run tell each
// other of it. For .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/hardware/catalog/oom_report_fields.h"
#include "megacpp/hardware/catalog/records.h"

namespace megacpp::catalog {

template <typename Visit, base::Is<Signature> Self>
void visit_fields(const Visit& visit, Self& signature) {
  visit("code_version", signature.build.code_version);
  visit("platform", signature.build.platform, "plugin and driver; empty: the build's own backend");
  visit("threads", signature.build.threads, "of a virtual chip; 0: real ones, or not noted");
  visit("processor", signature.build.processor, "of the machine of virtual chips, or empty");
  visit("hardware", signature.hardware);
  visit("model", signature.model);
  visit("model_hash", signature.model_hash);
  visit("layout", signature.layout);
  visit("features", signature.features);
  visit("shape", signature.shape);
}

template <typename Visit, base::Is<Outcome> Self>
void visit_fields(const Visit& visit, Self& outcome) {
  visit("signature", outcome.signature, "of what was tried");
  visit("at", outcome.at, "UTC");
  visit("fits", outcome.fits);
  visit("oom_class", outcome.oom_class);
  visit("phase", outcome.phase, "what the launch was doing");
  visit("rung", outcome.rung);
  visit("chip", outcome.chip);
  visit("predicted_bytes", outcome.predicted_bytes);
  visit("measured_bytes", outcome.measured_bytes);
  visit("limit_bytes", outcome.limit_bytes);
  visit("predicted_seconds", outcome.predicted_seconds, "of a step");
  visit("measured_seconds", outcome.measured_seconds);
  visit("note", outcome.note);
  visit("report", outcome.report, "of a failure");
}

template <typename Visit, base::Is<Start> Self>
void visit_fields(const Visit& visit, Self& start) {
  visit("at", start.at, "UTC");
  visit("rung", start.rung);
  visit("settings", start.settings, "that worked for a launch that asked for the signature");
  visit("reasons", start.reasons);
}

template <typename Visit, base::Is<Sample> Self>
void visit_fields(const Visit& visit, Self& sample) {
  visit("signature", sample.signature);
  visit("at", sample.at, "UTC");
  visit("lane", sample.lane);
  visit("quantity", sample.quantity);
  visit("parts", sample.parts, "predicted");
  visit("measured", sample.measured);
}

}  // namespace megacpp::catalog
