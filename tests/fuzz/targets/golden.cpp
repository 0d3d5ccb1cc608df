// SPDX-License-Identifier: Apache-2.0
// A golden file of a small Llama, written once, with its metadata and its header changed.
#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/run/train/parity.h"
#include "tests/fuzz/json_tree.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/safetensors_check.h"
#include "tests/fuzz/scratch_file.h"

namespace megacpp::fuzz {
namespace {

using base::Json;

constexpr const char* kMeta = R"({"cls": "LlamaForCausalLM", "config": {"vocab_size": 8, "hidden_size": 8,
  "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_theta": 10000.0, "hidden_act": "silu"}})";

struct Golden {
  Json header = Json::object();
  std::string data = {};

  void add(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape) {
    size_t bytes = 4;
    for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
    data.resize(data.size() + bytes, '\0');
  }
  void add_parameter(const std::string& name, const std::vector<int64_t>& shape) {
    for (const char* prefix : {"param.", "grad."}) add(prefix + name, "F32", shape);
  }
};

Golden small_llama() {
  Golden golden;
  golden.add("in.ids", "I32", {1, 4});
  golden.add("in.labels", "I32", {1, 4});
  golden.add("out.logits", "F32", {1, 4, 8});
  golden.add("out.loss", "F32", {});
  golden.add_parameter("model.embed_tokens.weight", {8, 8});
  const std::string layer = "model.layers.0.";
  golden.add_parameter(layer + "input_layernorm.weight", {8});
  golden.add_parameter(layer + "self_attn.q_proj.weight", {8, 8});
  for (const char* name : {"self_attn.k_proj.weight", "self_attn.v_proj.weight"})
    golden.add_parameter(layer + name, {4, 8});
  golden.add_parameter(layer + "self_attn.o_proj.weight", {8, 8});
  golden.add_parameter(layer + "post_attention_layernorm.weight", {8});
  for (const char* name : {"mlp.gate_proj.weight", "mlp.up_proj.weight"}) golden.add_parameter(layer + name, {12, 8});
  golden.add_parameter(layer + "mlp.down_proj.weight", {8, 12});
  golden.add_parameter("model.norm.weight", {8});
  golden.add_parameter("lm_head.weight", {8, 8});
  return golden;
}

void run_changed_golden(Bytes input) {
  static const ScratchFile scratch("golden.safetensors");
  static const Golden kGolden = small_llama();
  Choices choices(input);
  Json meta = Json::parse(kMeta), header = kGolden.header;
  change_tree(meta, choices, 3);
  header["__metadata__"] = {{"meta", base::to_text(meta)}};
  change_tree(header, choices, 2);
  scratch.write(safetensors_file(base::to_text(header), kGolden.data));
  recipe::Recipe settings;
  settings.train.threads = 1;
  train::run_parity(scratch.path(), settings, runtime::backend_named("cpu"));
}

}  // namespace

Target golden_target() {
  return {.name = "golden", .subject = "golden files of parity", .weight = 5, .run = run_changed_golden};
}

}  // namespace megacpp::fuzz
