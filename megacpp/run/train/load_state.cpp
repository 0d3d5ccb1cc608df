// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/load_state.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/state_saver.h"

namespace megacpp::train {
namespace {

[[noreturn]] void refuse_model(const std::string& where, std::string got, std::string wanted) {
  base::raise(base::Code::E1205, {.where = where,
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "leave out the --set that changes it, or start a new run"});
}

/// What the local chips hold of one tensor: chips with the same rectangle share a buffer.
class TensorParts {
 public:
  TensorParts(const std::string& name, const compile::Compiled& compiled, runtime::Executable& run)
      : name_(name), run_(run) {
    for (const int64_t chip : run.local_chips()) {
      const compile::StateTensor* const tensor = compiled.programs_of(chip).find_state(name);
      if (tensor == nullptr) continue;
      type_ = compile::local_type(*tensor, compiled.mesh);
      chips_[checkpoint::box_of(tensor->whole.shape, tensor->sharding, compiled.mesh, chip)].push_back(chip);
    }
  }

  void load(const checkpoint::Reader& reader) {
    std::vector<std::vector<std::byte>> buffers(chips_.size(),
                                                std::vector<std::byte>(static_cast<size_t>(type_.bytes())));
    std::vector<checkpoint::BoxBytes<std::byte>> boxes;
    for (const auto& [box, chips] : chips_) boxes.push_back({box, type_.shape, buffers[boxes.size()]});
    reader.read(name_, type_.dtype, boxes);
    size_t at = 0;
    for (const auto& [box, chips] : chips_) {
      for (const int64_t chip : chips) run_.write_state(name_, chip, buffers[at]);
      ++at;
    }
  }

 private:
  const std::string& name_;
  runtime::Executable& run_;
  ir::TensorType type_;  // of a chip's part, with padding
  std::map<checkpoint::Box, std::vector<int64_t>> chips_;
};

enum class Loaded : uint8_t { all, weights };

bool is_loaded(Loaded what, bool is_weight) { return what == Loaded::all || is_weight; }

std::map<std::string, ir::TensorType> loaded_tensors(const compile::Compiled& compiled, Loaded what) {
  std::map<std::string, ir::TensorType> tensors;
  for (const compile::StagePrograms& stage : compiled.stages)
    for (const compile::StateTensor& tensor : stage.state)
      if (tensor.kept && is_loaded(what, tensor.role != ir::Role::optimizer))
        tensors.emplace(tensor.name, tensor.whole);
  return tensors;
}

void require_same_tensors(const checkpoint::Reader& reader, const std::map<std::string, ir::TensorType>& wanted,
                          Loaded what) {
  const std::string where = reader.folder().string();
  const auto& saved = reader.manifest().tensors;
  for (const auto& [name, type] : wanted) {
    const auto at = saved.find(name);
    if (at == saved.end()) refuse_model(where, "no tensor '" + name + "'", "all tensors of the recipe's model");
    if (at->second.whole.shape != type.shape || ir::is_float(at->second.whole.dtype) != ir::is_float(type.dtype))
      refuse_model(where, "'" + name + "' as " + ir::to_string(at->second.whole), ir::to_string(type));
  }
  for (const auto& [name, tensor] : saved)
    if (is_loaded(what, tensor.is_weight) && !wanted.contains(name))
      refuse_model(where, "tensor '" + name + "'", "tensors of the recipe's model alone");
}

/// Adapters that are absent are left as they are, if they may be.
template <typename Source>
bool is_left(const Source& source, const std::string& name, AbsentAdapters absent) {
  return absent == AbsentAdapters::left && blocks::is_adapter(name) && !source.contains(name);
}

}  // namespace

void require_same_model(const checkpoint::Manifest& manifest, const recipe::Recipe& recipe) {
  const checkpoint::Manifest wanted = manifest_header(recipe);
  if (manifest.optimizer != wanted.optimizer)
    refuse_model("optimizer.name", manifest.optimizer + " in the checkpoint", wanted.optimizer);
  std::set<std::string> keys;
  for (const auto& [key, value] : manifest.model) keys.insert(key);
  for (const auto& [key, value] : wanted.model) keys.insert(key);
  const auto value_of = [](const checkpoint::Manifest& header, const std::string& key) {
    const auto at = header.model.find(key);
    return at == header.model.end() ? std::string("not set") : at->second;
  };
  for (const std::string& key : keys)
    if (value_of(manifest, key) != value_of(wanted, key))
      refuse_model(key, value_of(manifest, key) + " in the checkpoint", value_of(wanted, key));
}

void load_state(const checkpoint::Reader& reader, const compile::Compiled& compiled, runtime::Executable& run) {
  const std::map<std::string, ir::TensorType> wanted = loaded_tensors(compiled, Loaded::all);
  require_same_tensors(reader, wanted, Loaded::all);
  for (const auto& [name, type] : wanted) TensorParts(name, compiled, run).load(reader);
}

void load_weights(const checkpoint::Reader& reader, const compile::Compiled& compiled, runtime::Executable& run,
                  AbsentAdapters absent) {
  std::map<std::string, ir::TensorType> wanted = loaded_tensors(compiled, Loaded::weights);
  std::erase_if(wanted, [&](const auto& tensor) { return is_left(reader.manifest().tensors, tensor.first, absent); });
  require_same_tensors(reader, wanted, Loaded::weights);
  for (const auto& [name, type] : wanted) TensorParts(name, compiled, run).load(reader);
}

void load_weights(const checkpoint::TensorMap& weights, const compile::Compiled& compiled, runtime::Executable& run,
                  AbsentAdapters absent) {
  RunState state(compiled, run);
  for (const blocks::Parameter& parameter : compiled.parameters) {
    if (is_left(weights, parameter.name, absent)) continue;
    const auto weight = weights.find(parameter.name);
    MEGACPP_REQUIRE(weight != weights.end(), E1203,
                    {.where = "tensor " + parameter.name,
                     .got = "nothing",
                     .wanted = ir::to_string(parameter.shape),
                     .next = "check that the weights belong to this model"});
    state.write<float>(parameter.name, weight->second.data);
  }
}

}  // namespace megacpp::train
