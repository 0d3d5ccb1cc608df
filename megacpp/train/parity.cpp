// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/parity.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "megacpp/base/error.h"
#include "megacpp/base/json_text.h"
#include "megacpp/checkpoint/hf_config.h"
#include "megacpp/checkpoint/name_map.h"
#include "megacpp/checkpoint/safetensors.h"
#include "megacpp/model/model.h"
#include "megacpp/optim/adamw.h"
#include "megacpp/train/run_state.h"

namespace megacpp::train {
namespace {

using checkpoint::FloatTensor;
using checkpoint::TensorMap;

checkpoint::HfModel describe(const checkpoint::SafetensorsFile& file, const std::string& path) {
  const auto meta = file.metadata().find("meta");
  MEGACPP_REQUIRE(meta != file.metadata().end(), E1202,
                  {.where = path,
                   .got = "no metadata key 'meta'",
                   .wanted = "the model class and its configuration",
                   .next = "golden files hold {\"cls\": ..., \"config\": ...} under the metadata key 'meta'"});
  const base::Json json = base::parse_json(meta->second, base::Code::E1202, path);
  const base::Json* cls = json.find("cls");
  const base::Json* config = json.find("config");
  const std::string* name = cls == nullptr ? nullptr : cls->get_if<std::string>();
  MEGACPP_REQUIRE(name != nullptr && config != nullptr, E1202,
                  {.where = path, .got = "metadata without 'cls' or 'config'", .wanted = "both"});
  return checkpoint::import_hf_config(*name, *config);
}

model::Batch batch_of(const checkpoint::SafetensorsFile& file, const std::string& input) {
  const ir::Shape& shape = file.at(input).shape;
  MEGACPP_REQUIRE(shape.size() >= 2, E1203,
                  {.where = input, .got = ir::to_string(shape), .wanted = "[sequences, length, ..]"});
  return {.sequences = shape[0], .length = shape[1]};
}

template <typename T>
void fill_state(runtime::Executable& run, const std::string& name, const std::vector<T>& values) {
  const std::span<T> state = state_as<T>(run, name);
  MEGACPP_REQUIRE(
      state.size() == values.size(), E1203,
      {.where = name, .got = std::to_string(values.size()) + " elements", .wanted = std::to_string(state.size())});
  std::copy(values.begin(), values.end(), state.begin());
}

std::vector<float> read_output(const runtime::Executable& run, const std::string& name) {
  const std::span<const std::byte> bytes = run.output(compile::kMicroStep, name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

ParityRow compare(const std::string& name, const std::vector<float>& ours, const std::vector<float>& theirs,
                  double tolerance) {
  MEGACPP_REQUIRE(
      ours.size() == theirs.size(), E1203,
      {.where = name, .got = std::to_string(theirs.size()) + " elements", .wanted = std::to_string(ours.size())});
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
  Parity(const std::filesystem::path& path, const schedule::Target& target, const Loader& load)
      : file_(path), described_(describe(file_, path.string())) {
    const model::Batch batch = batch_of(file_, described_.lone_block ? "in.x" : "in.ids");
    compiled_ = described_.lone_block
                    ? compile::compile_gradients(
                          model::build_mixer(described_.model, described_.model.pattern[0], batch), "cotangent", target)
                    : compile::compile_gradients(model::build_forward(described_.model, batch, true), "", target);
    run_ = load(compiled_);
    bind();
  }

  ParityReport report() {
    run_->run(compile::kMicroStep);
    report_ = {.model_class = described_.cls, .pattern = described_.model.pattern, .rows = {}};
    for (const checkpoint::StoredTensor& tensor : file_.tensors())
      if (tensor.name.rfind("out.", 0) == 0) compare_output(tensor.name);
    compare_gradients();
    return std::move(report_);
  }

 private:
  void bind() {
    const TensorMap ours = checkpoint::import_tensors(described_.names, checkpoint::read_tensors(file_, "param."));
    for (const auto& [name, tensor] : ours) fill_state(*run_, name, tensor.data);
    if (described_.lone_block) {
      fill_state(*run_, "x", checkpoint::to_floats(file_.at("in.x")));
      fill_state(*run_, "cotangent", checkpoint::to_floats(file_.at("in.cotangent")));
    } else {
      fill_state(*run_, "batch.ids", checkpoint::to_ints(file_.at("in.ids")));
      fill_state(*run_, "batch.labels", checkpoint::to_ints(file_.at("in.labels")));
    }
  }

  void compare_output(const std::string& name) {
    const std::string ours = name.substr(4);
    report_.rows.push_back(
        compare(name, read_output(*run_, ours), checkpoint::to_floats(file_.at(name)), kOutputTolerance));
  }

  // Our gradients in the reference's own layout, so that each row is one of its tensors.
  void compare_gradients() {
    TensorMap ours;
    for (const blocks::Parameter& parameter : compiled_.parameters)
      if (parameter.trainable)
        ours[parameter.name] = {parameter.shape, read_output(*run_, optim::gradient_name(parameter.name))};
    TensorMap theirs = checkpoint::export_tensors(described_.names, ours);
    if (described_.lone_block) theirs["x"] = {file_.at("in.x").shape, read_output(*run_, optim::gradient_name("x"))};
    for (const auto& [name, tensor] : theirs) {
      const std::string golden = "grad." + name;
      if (!file_.contains(golden)) continue;
      report_.rows.push_back(compare(golden, tensor.data, checkpoint::to_floats(file_.at(golden)), kGradientTolerance));
    }
  }

  checkpoint::SafetensorsFile file_;
  checkpoint::HfModel described_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
  ParityReport report_;
};

}  // namespace

bool ParityReport::passed() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const ParityRow& row) { return row.passed; });
}

ParityReport run_parity(const std::filesystem::path& file, const schedule::Target& target, const Loader& load) {
  return Parity(file, target, load).report();
}

}  // namespace megacpp::train
