// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/oom_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/hardware/fit/signature.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::launch {
namespace {

using catalog::OomBytes;
using catalog::OomReport;
using catalog::OomSubject;
using catalog::Reduction;
using memory::human_bytes;

constexpr size_t kShownPieces = 5;

OomSubject subject_of(const fit::Estimate& estimate) {
  const recipe::Recipe& recipe = estimate.recipe();
  return {.model = recipe.name,
          .pattern = recipe.model.pattern,
          .depth = recipe.model.depth,
          .hidden = recipe.model.hidden,
          .batch = recipe.train.batch,
          .sequence = recipe.train.sequence,
          .micro_steps = recipe.train.micro_steps,
          .precision = std::string(ir::dtype_name(recipe.train.precision)),
          .layout = fit::layout_text(recipe),
          .mesh = ir::to_string(estimate.compiled.mesh),
          .hardware = estimate.fit.hardware,
          .backend = recipe.backend};
}

Reduction reduction_of(const fit::Attempt& attempt) {
  Reduction reduction{.rung = static_cast<int64_t>(attempt.rung),
                      .name = attempt.name,
                      .settings = fit::to_text(attempt.changes),
                      .outcome = std::string(fit::verdict_name(attempt.verdict)),
                      .reason = attempt.reason};
  if (attempt.needed > 0) reduction.needed_bytes = attempt.needed, reduction.limit_bytes = attempt.limit;
  return reduction;
}

std::string piece_text(const OomBytes& piece) {
  return fmt::format("{} {}{}", human_bytes(piece.bytes), piece.what, piece.scope.empty() ? "" : " @" + piece.scope);
}

std::string reduction_text(const Reduction& reduction) {
  std::string text = fmt::format("rung {} {} {}", reduction.rung, reduction.name, reduction.outcome);
  if (!reduction.settings.empty()) text += ": " + reduction.settings;
  if (reduction.needed_bytes && reduction.limit_bytes)
    text += fmt::format(", {} of {}", human_bytes(*reduction.needed_bytes), human_bytes(*reduction.limit_bytes));
  if (!reduction.reason.empty()) text += (reduction.settings.empty() ? ": " : "; ") + reduction.reason;
  return text;
}

std::string failure_text(const OomReport& report) {
  std::string text = fmt::format("{} ({})", report.oom_class, report.code);
  text += report.step >= 0 ? " in " + memory::steps_text(report.first_step, report.step) : " while " + report.phase;
  if (!report.chip.empty()) text += " on " + report.chip;
  if (report.wanted_bytes) text += fmt::format(": {} wanted", memory::exact_bytes(*report.wanted_bytes));
  if (report.limit_bytes)
    text += fmt::format("{} of {}", report.wanted_bytes ? "" : ":", memory::exact_bytes(*report.limit_bytes));
  return report.is_injected ? text + "; an injected fault" : text;
}

std::string contents_text(const OomReport& report) {
  std::vector<std::string> words;
  for (const OomBytes& role : report.roles) words.push_back(role.what + " " + human_bytes(role.bytes));
  for (size_t i = 0; i < std::min(kShownPieces, report.largest.size()); ++i)
    words.push_back((i == 0 ? "largest " : "") + piece_text(report.largest[i]));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

OomReport make_report(const fit::Estimate& estimate, const memory::OutOfMemory& failure,
                      const std::vector<fit::Attempt>& tried) {
  const memory::OomFacts& facts = failure.facts();
  OomReport report{.code = std::string(base::code_name(failure.code())),
                   .oom_class = std::string(memory::oom_class_name(facts.cls)),
                   .phase = facts.phase,
                   .step = facts.step,
                   .first_step = facts.first_step,
                   .chip = facts.place,
                   .wanted_bytes = facts.wanted,
                   .limit_bytes = facts.limit,
                   .is_injected = facts.is_injected,
                   .subject = subject_of(estimate),
                   .message = facts.text};
  const memory::MemoryPlan& plan = estimate.worst_memory();
  for (const memory::RoleBytes& role : facts.roles.empty() ? memory::bytes_by_role(plan) : facts.roles)
    report.roles.push_back({.what = std::string(ir::role_name(role.role)), .bytes = role.bytes});
  for (const memory::OomPiece& piece : facts.largest.empty() ? memory::pieces_of(plan) : facts.largest)
    report.largest.push_back({.what = piece.what, .scope = piece.scope, .bytes = piece.bytes});
  report.reductions = reductions_of(tried);
  return report;
}

std::vector<Reduction> reductions_of(const std::vector<fit::Attempt>& tried) {
  std::vector<Reduction> reductions;
  for (const fit::Attempt& attempt : tried) reductions.push_back(reduction_of(attempt));
  return reductions;
}

std::vector<std::string> lines_of(const OomReport& report) {
  const OomSubject& subject = report.subject;
  std::vector<std::string> lines = {fmt::format("model {}, pattern {}, depth {}, hidden {}", subject.model,
                                                subject.pattern, subject.depth, subject.hidden),
                                    fmt::format("shape batch {}, sequence {}, micro-steps {}, {}", subject.batch,
                                                subject.sequence, subject.micro_steps, subject.precision),
                                    fmt::format("layout {} on {}{}, backend {}", subject.layout, subject.hardware,
                                                subject.mesh.empty() ? "" : ", mesh " + subject.mesh, subject.backend),
                                    failure_text(report), "for " + contents_text(report)};
  for (const Reduction& reduction : report.reductions) lines.push_back("tried " + reduction_text(reduction));
  if (report.reductions.empty()) lines.push_back("tried no reduction");
  if (!report.ending.empty()) lines.push_back(report.ending);
  return lines;
}

}  // namespace megacpp::launch
