// SPDX-License-Identifier: Apache-2.0
#include "tests/backend/reference_backend.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/ops/evaluator.h"
#include "tests/support/tensors.h"

namespace megacpp::testing_support {
namespace {

using ops::Tensor;

class ReferenceExecutable : public runtime::Executable {
 public:
  ReferenceExecutable(const compile::Compiled& compiled, const runtime::LoadOptions& options)
      : Executable(compiled, options.fetches) {
    for (const compile::StateTensor& tensor : state(0)) state_[tensor.name] = Tensor::zeros(tensor.whole);
    counters_.compiles["nothing to compile"] = 1;
  }

  const std::vector<int64_t>& local_chips() const override { return chips_; }
  std::optional<int64_t> state_bytes(const std::string& name, int64_t) const override {
    const auto at = state_.find(name);
    return at == state_.end() ? std::nullopt : std::optional(at->second.type.bytes());
  }

  void run_step(runtime::StepMode) override {
    counters_.executions += 1;
    const compile::StagePrograms& stage = compiled().stages[0];
    for (size_t a = 0; a < stage.step.size(); ++a) {
      const compile::Action& action = stage.step[a];
      for (const compile::StateTensor& tensor : stage.state)
        if (!tensor.staged_as.empty())
          state_[tensor.name] = staged_[{tensor.staged_as, tensor.per_micro_step ? action.micro : 0}];
      std::map<std::string, Tensor> outputs = ops::evaluate(stage.programs[action.program].graph, state_);
      for (const runtime::FetchedOutput& output : ports(0).outputs)
        for (size_t i = 0; i < output.actions.size(); ++i)
          if (output.actions[i] == a) fetched_[{output.name, i}] = outputs.at(output.name);
      for (const ir::Output& output : stage.programs[action.program].graph.outputs())
        if (!output.donated.empty()) state_[output.donated] = outputs.at(output.name);
    }
  }

  runtime::ChipMemory memory(int64_t) const override { return {}; }
  std::string path() const override { return "reference"; }
  runtime::Counters counters() const override { return counters_; }
  int64_t programs_made() const override { return counters_.programs_made(); }

 protected:
  void put_state(const compile::StateTensor& tensor, int64_t, std::span<const std::byte> part) override {
    state_[tensor.name] = decode(tensor.whole, part.data());
  }
  void get_state(const compile::StateTensor& tensor, int64_t, std::span<std::byte> part) const override {
    encode(state_.at(tensor.name), part.data());
  }
  void put_batch(const runtime::StagedInput& input, int64_t micro, int64_t, std::span<const std::byte> part) override {
    staged_[{input.name, micro}] = decode(input.type, part.data());
  }
  void get_output(const runtime::FetchedOutput& output, int64_t, std::span<std::byte> values) const override {
    const size_t bytes = static_cast<size_t>(output.type.bytes());
    for (size_t i = 0; i < output.actions.size(); ++i)
      encode(fetched_.at({output.name, i}), values.subspan(i * bytes, bytes).data());
  }

 private:
  std::vector<int64_t> chips_ = {0};
  std::map<std::string, Tensor> state_;
  std::map<std::pair<std::string, int64_t>, Tensor> staged_;  // by input and micro-step
  std::map<std::pair<std::string, size_t>, Tensor> fetched_;  // by output and which of its actions
  runtime::Counters counters_;
};

}  // namespace

runtime::Backend reference_backend() {
  return {.name = "reference",
          .runs_on = {hw::ChipKind::host},
          .cannot_run = [](const recipe::Recipe& recipe) -> std::optional<recipe::Unsupported> {
            if (recipe.layout == recipe::Layout{}) return std::nullopt;
            return recipe::Unsupported{.setting = "layout", .reason = "one chip", .instead = "no layout"};
          },
          .runs_node_by_node = false,
          .target =
              [](const recipe::RunRequest&, const runtime::TargetMesh&) {
                return schedule::Target{
                    .name = "reference",
                    .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                    .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }};
              },
          .load = [](const recipe::RunRequest&, const compile::Compiled& compiled,
                     const runtime::LoadOptions& options) -> std::unique_ptr<runtime::Executable> {
            return std::make_unique<ReferenceExecutable>(compiled, options);
          },
          .usable = [](const recipe::RunRequest&) { return base::Decision::yes(); },
          .identity = [](const recipe::RunRequest&) { return std::string("reference"); }};
}

}  // namespace megacpp::testing_support
