// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/parity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/optim/update.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/run/checkpoint/hf_config.h"
#include "megacpp/run/checkpoint/name_map.h"
#include "megacpp/run/checkpoint/safetensors.h"
#include "megacpp/run/train/run_state.h"

namespace megacpp::train {
namespace {

using checkpoint::FloatTensor;
using checkpoint::TensorMap;

constexpr const char* kMetadata =
    "take a golden file, which holds {\"cls\": ..., \"config\": ...} under the metadata key 'meta'";

checkpoint::HfModel describe(const checkpoint::SafetensorsFile& file, const std::string& path) {
  const auto meta = file.metadata().find("meta");
  MEGACPP_REQUIRE(meta != file.metadata().end(), E1202,
                  {.where = path,
                   .got = "no metadata key 'meta'",
                   .wanted = "the model class and its configuration",
                   .next = kMetadata});
  const base::Json json = base::parse_json(meta->second, base::Code::E1202, path);
  const base::Json* cls = base::find_member(json, "cls");
  const base::Json* config = base::find_member(json, "config");
  const std::string* name = cls == nullptr ? nullptr : base::as_text(*cls);
  MEGACPP_REQUIRE(name != nullptr && config != nullptr, E1202,
                  {.where = path, .got = "metadata without 'cls' or 'config'", .wanted = "both", .next = kMetadata});
  return checkpoint::import_hf_config(*name, *config);
}

constexpr const char* kNextStep = "check that the tensor was made with this model's configuration";

[[noreturn]] void refuse(const std::string& name, const std::string& got, const std::string& wanted) {
  base::raise(base::Code::E1203, {.where = "tensor " + name, .got = got, .wanted = wanted, .next = kNextStep});
}

void require_shape(const checkpoint::SafetensorsFile& file, const std::string& name, const ir::Shape& wanted) {
  if (!file.contains(name)) refuse(name, "nothing", ir::to_string(wanted));
  const ir::Shape& shape = file.at(name).shape;
  if (shape != wanted) refuse(name, ir::to_string(shape), ir::to_string(wanted));
}

/// The batch the inputs hold; both of them are checked.
model::Batch batch_of(const checkpoint::SafetensorsFile& file, const checkpoint::HfModel& described) {
  const std::string first = described.lone_block ? "in.x" : "in.ids";
  const std::string wanted = described.lone_block ? "[sequences, length, hidden]" : "[sequences, length]";
  if (!file.contains(first)) refuse(first, "nothing", wanted);
  const ir::Shape& shape = file.at(first).shape;
  if (shape.size() < 2 || shape[0] < 1 || shape[1] < 1) refuse(first, ir::to_string(shape), wanted);
  ir::Shape exact = {shape[0], shape[1]};
  if (described.lone_block) exact.push_back(described.model.hidden);
  require_shape(file, first, exact);
  require_shape(file, described.lone_block ? "in.cotangent" : "in.labels", exact);
  return {.sequences = shape[0], .length = shape[1]};
}

/// Tokens of the vocabulary; below it only where `masked` says that negative ones count for nothing.
std::vector<int32_t> read_tokens(const checkpoint::SafetensorsFile& file, const std::string& name, int64_t vocab,
                                 bool masked) {
  std::vector<int32_t> tokens = checkpoint::to_ints(file.at(name));
  for (size_t i = 0; i < tokens.size(); ++i) {
    MEGACPP_REQUIRE(tokens[i] < vocab && (masked || tokens[i] >= 0), E1102,
                    {.where = "tensor " + name + ", element " + std::to_string(i),
                     .got = std::to_string(tokens[i]),
                     .wanted = std::string(masked ? "negative (masked) or " : "") + "0 to " + std::to_string(vocab - 1),
                     .next = "make the golden file with token ids below the configuration's vocab_size"});
  }
  return tokens;
}

/// What is trained, and the buffers that are state of the model.
TensorMap read_weights(const checkpoint::SafetensorsFile& file, const checkpoint::HfModel& described) {
  TensorMap weights = checkpoint::read_tensors(file, "param.");
  const TensorMap buffers = checkpoint::read_tensors(file, "buffer.");
  for (const checkpoint::NamePiece& piece : described.names.pieces)
    if (const auto buffer = buffers.find(piece.theirs); !piece.is_trained && buffer != buffers.end())
      weights.insert(*buffer);
  return weights;
}

/// Every tensor that is compared is there and has a counterpart; what is wrong is found before anything is compiled.
void check_gradients(const checkpoint::SafetensorsFile& file, const checkpoint::HfModel& described) {
  std::set<std::string> known;
  const auto want = [&](const std::string& name, const ir::Shape& shape) {
    if (known.insert("grad." + name).second) require_shape(file, "grad." + name, shape);
  };
  for (const checkpoint::NamePiece& piece : checkpoint::trained(described.names).pieces)
    want(piece.theirs, piece.their_shape);
  if (described.lone_block) want("x", file.at("in.x").shape);
  for (const checkpoint::StoredTensor& tensor : file.tensors())
    if (tensor.name.starts_with("grad.") && !known.contains(tensor.name))
      refuse(tensor.name, ir::to_string(tensor.shape), "only gradients of tensors the model has");
}

void require_outputs(const checkpoint::SafetensorsFile& file, const checkpoint::HfModel& described) {
  const std::vector<std::string> wanted =
      described.lone_block ? std::vector<std::string>{"out.y"} : std::vector<std::string>{"out.logits", "out.loss"};
  for (const std::string& name : wanted)
    if (!file.contains(name)) refuse(name, "nothing", "the reference's result");
}

/// Ours may be a scalar where theirs is [1], and has sequences and length in two dimensions where theirs has one.
bool same_shape(const ir::Shape& ours, const ir::Shape& theirs, const model::Batch& batch) {
  if (ours == theirs || (ours.empty() && theirs == ir::Shape{1})) return true;
  if (ours.size() < 2 || ours[0] != batch.sequences || ours[1] != batch.length) return false;
  ir::Shape joined = {batch.sequences * batch.length};
  joined.insert(joined.end(), ours.begin() + 2, ours.end());
  return theirs == joined;
}

ParityRow compare(const std::string& name, const std::vector<float>& ours, const std::vector<float>& theirs,
                  double tolerance) {
  MEGACPP_CHECK(ours.size() == theirs.size()) << name << " was compared before its shape was";
  ParityRow row{.name = name, .tolerance = tolerance};
  double difference = 0, norm = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double error = static_cast<double>(ours[i]) - static_cast<double>(theirs[i]);
    row.max_abs_error = std::max(row.max_abs_error, std::fabs(error));
    difference += error * error;
    norm += static_cast<double>(theirs[i]) * static_cast<double>(theirs[i]);
  }
  row.relative_error = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  row.passed = row.relative_error <= tolerance;  // NaN fails
  return row;
}

class Parity {
 public:
  Parity(const std::filesystem::path& path, const recipe::Recipe& settings, const runtime::Backend& backend,
         const compile::Options& options)
      : file_(path), described_(describe(file_, path.string())), batch_(batch_of(file_, described_)) {
    const TensorMap parameters = checkpoint::import_tensors(described_.names, read_weights(file_, described_));
    check_gradients(file_, described_);
    require_outputs(file_, described_);
    if (!described_.lone_block) {
      ids_ = read_tokens(file_, "in.ids", described_.model.vocab, false);
      labels_ = read_tokens(file_, "in.labels", described_.model.vocab, true);
    }
    const plan::PlannedRecipe planned(recipe_for(settings, backend.name), plan::Adjustable::layout);
    recipe::require_supported(backend.cannot_run, backend.name, planned.recipe());
    const recipe::RunRequest request = recipe::run_request(planned.recipe());
    const plan::Plan& plan = planned.plan();
    const schedule::Target target = runtime::target_on(backend, request, plan.parallel.mesh);
    compiled_ = described_.lone_block
                    ? compile::compile_gradients(
                          {.forward = model::build_mixer(described_.model, described_.model.pattern[0], batch_, plan),
                           .cotangent = "cotangent",
                           .plan = plan},
                          target, options)
                    : compile::compile_gradients(
                          {.forward = model::build_forward(described_.model, batch_, plan, true), .plan = plan}, target,
                          options);
    check_outputs();
    runtime::LoadOptions loading = runtime::load_options(request, compiled_.mesh.chips());
    loading.fetches = compared_outputs();
    run_ = runtime::load_on(backend, request, compiled_, loading);
    bind(parameters);
  }

  ParityReport report() {
    run_->run_step(runtime::StepMode::plain);
    report_ = {.model_class = described_.cls, .pattern = described_.model.pattern, .rows = {}};
    for (const checkpoint::StoredTensor& tensor : file_.tensors())
      if (tensor.name.starts_with("out.")) compare_output(tensor.name);
    compare_gradients();
    file_.require_unchanged();
    return std::move(report_);
  }

 private:
  recipe::Recipe recipe_for(recipe::Recipe recipe, const std::string& backend) const {
    recipe.name = described_.cls;
    recipe.backend = backend;
    recipe.model = described_.model;
    recipe.train.batch = batch_.sequences;
    recipe.train.sequence = batch_.length;
    // A pipeline adds gradients up in state, which is read whole: no sum may wait for an update that never comes.
    if (recipe.layout.pipeline_parallel > 1) recipe.layout.zero = std::max<int64_t>(recipe.layout.zero.given, 2);
    return recipe;
  }

  std::vector<std::string> compared_outputs() const {
    std::vector<std::string> names;
    for (const checkpoint::StoredTensor& tensor : file_.tensors())
      if (tensor.name.starts_with("out.")) names.push_back(tensor.name.substr(4));
    for (const blocks::Parameter& parameter : compiled_.parameters)
      if (parameter.trainable) names.push_back(optim::gradient_name(parameter.name));
    if (described_.lone_block) names.push_back(optim::gradient_name("x"));
    return names;
  }

  void check_outputs() const {
    partition::Placements outputs;
    for (const compile::StagePrograms& stage : compiled_.stages)
      for (const compile::Program& program : stage.programs)
        outputs.insert(program.outputs.begin(), program.outputs.end());
    for (const checkpoint::StoredTensor& tensor : file_.tensors()) {
      if (!tensor.name.starts_with("out.")) continue;
      const auto ours = outputs.find(tensor.name.substr(4));
      if (ours == outputs.end()) refuse(tensor.name, ir::to_string(tensor.shape), "only results the model has");
      const ir::TensorType& type = ours->second.whole;
      if (type.dtype != ir::DType::f32 || !same_shape(type.shape, tensor.shape, batch_))
        refuse(tensor.name, ir::to_string(tensor.shape), ir::to_string(type));
    }
  }

  void bind(const TensorMap& parameters) {
    for (const blocks::Parameter& parameter : compiled_.parameters)
      MEGACPP_CHECK(!parameter.trainable || parameters.contains(parameter.name))
          << parameter.name << " has no counterpart in " << described_.cls;
    RunState state(compiled_, *run_);
    for (const auto& [name, tensor] : parameters) state.write<float>(name, tensor.data);
    if (described_.lone_block) {
      stage_rows(state, "x", checkpoint::to_floats(file_.at("in.x")));
      stage_rows(state, "cotangent", checkpoint::to_floats(file_.at("in.cotangent")));
    } else {
      stage_tokens(state, "batch.ids", ids_);
      stage_tokens(state, "batch.labels", labels_);
    }
    std::vector<int32_t> positions(static_cast<size_t>(batch_.length));
    std::iota(positions.begin(), positions.end(), 0);
    stage_tokens(state, "batch.positions", positions);
  }

  void stage_tokens(RunState& state, const std::string& name, const std::vector<int32_t>& tokens) {
    state.stage<int32_t>(name, 0, in_stored_order(tokens, compiled_.time_order, batch_.length));
  }

  // Rows of tokens have the order in which the run stores them.
  int64_t row_width(size_t elements) const {
    return static_cast<int64_t>(elements) / (batch_.sequences * batch_.length);
  }

  void stage_rows(RunState& state, const std::string& name, const std::vector<float>& rows) {
    state.stage<float>(name, 0, in_stored_order(rows, compiled_.time_order, batch_.length, row_width(rows.size())));
  }

  // Stages that share a weight have a part of its gradient each; of other outputs there is one.
  std::vector<float> read(const std::string& name) {
    std::vector<float> sum;
    for (const auto& [stage, part] : RunState(compiled_, *run_).output(name)) {
      sum.resize(part.size());
      for (size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
    }
    return sum;
  }

  std::vector<float> read_rows(const std::string& name) {
    const std::vector<float> rows = read(name);
    return in_time_order(rows, compiled_.time_order, batch_.length, row_width(rows.size()));
  }

  void compare_output(const std::string& name) {
    const std::vector<float> theirs = checkpoint::to_floats(file_.at(name));
    const std::string ours = name.substr(4);
    report_.rows.push_back(compare(name, theirs.size() == 1 ? read(ours) : read_rows(ours), theirs, kOutputTolerance));
  }

  // Our gradients in the reference's own layout, so that each row is one of its tensors.
  void compare_gradients() {
    TensorMap ours;
    for (const blocks::Parameter& parameter : compiled_.parameters)
      if (parameter.trainable) ours[parameter.name] = {parameter.shape, read(optim::gradient_name(parameter.name))};
    TensorMap theirs = checkpoint::export_tensors(checkpoint::trained(described_.names), ours);
    if (described_.lone_block) theirs["x"] = {file_.at("in.x").shape, read_rows(optim::gradient_name("x"))};
    for (const auto& [name, tensor] : theirs) {
      const std::string golden = "grad." + name;
      report_.rows.push_back(compare(golden, tensor.data, checkpoint::to_floats(file_.at(golden)), kGradientTolerance));
    }
  }

  checkpoint::SafetensorsFile file_;
  checkpoint::HfModel described_;
  model::Batch batch_;
  std::vector<int32_t> ids_, labels_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
  ParityReport report_;
};

}  // namespace

bool ParityReport::passed() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const ParityRow& row) { return row.passed; });
}

ParityReport run_parity(const std::filesystem::path& file, const recipe::Recipe& settings,
                        const runtime::Backend& backend, const compile::Options& options) {
  return Parity(file, settings, backend, options).report();
}

}  // namespace megacpp::train
