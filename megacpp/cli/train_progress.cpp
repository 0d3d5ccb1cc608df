// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/train_progress.h"

#include <utility>

#include <fmt/format.h>

#include "megacpp/cli/output.h"
#include "megacpp/machine/collectives/mpi/mpi_launch.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::cli {
namespace {

// The busiest expert over the mean, of the block where that is most; and what all blocks dropped.
std::string experts_text(const train::StepReport& report) {
  const train::ExpertShares* const worst = train::most_uneven(report.experts);
  return (worst != nullptr ? fmt::format("  experts {:.1f}x", worst->imbalance()) : "") +
         (report.dropped.value_or(0) > 0 ? fmt::format("  dropped {:.0f}", *report.dropped) : "");
}

}  // namespace

TrainProgress::TrainProgress(const recipe::Recipe& recipe)
    : recipe_(recipe), is_over_processes_(collectives::mpi_launch().has_value()) {}

void TrainProgress::operator()(const train::StepReport& report) {
  const bool is_warm = std::exchange(has_line_, true);
  const double left =
      report.seconds / static_cast<double>(report.steps) * static_cast<double>(recipe_.train.steps - report.step - 1);
  print_err("step {:>5}/{}{}{}  lr {:.2e}{}{}{}{}\n", report.step + 1, recipe_.train.steps,
            report.loss ? fmt::format("  loss {:.4f}", *report.loss) : "",
            report.grad_norm ? fmt::format("  norm {:.2f}", *report.grad_norm) : "", report.learning_rate,
            is_warm ? fmt::format("  {:>7.0f} tok/s", static_cast<double>(report.tokens) / report.seconds) : "",
            peak_text(report) + slowest_text(report), experts_text(report),
            is_warm ? fmt::format("  {:.0f}s left", left) : "");
}

std::string TrainProgress::peak_text(const train::StepReport& report) const {
  if (!report.peak_bytes) return "";
  return "  peak " + memory::human_bytes(*report.peak_bytes) +
         (is_over_processes_ ? fmt::format(" (chip {})", report.peak_chip.value_or(0)) : "");
}

// All chips step together: the one that waits least for the others is the one they wait for.
std::string TrainProgress::slowest_text(const train::StepReport& report) const {
  if (!is_over_processes_ || !report.busy_seconds) return "";
  return fmt::format("  slowest {:.3f} s at work (chip {})", *report.busy_seconds, report.busy_chip.value_or(0));
}

}  // namespace megacpp::cli
