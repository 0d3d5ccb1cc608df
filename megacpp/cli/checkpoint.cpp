// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/word_list.h"
#include "megacpp/core/ir/dtype.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/checkpoint/store.h"
#include "megacpp/run/checkpoint/transform.h"
#include "megacpp/run/launch/run_directory.h"

namespace megacpp::cli {
namespace {

struct CheckpointFlags {
  std::vector<std::string> from;
  std::string to;
  std::string type;
  int64_t shards = 1;
  bool weights_only = false;
  bool adapters_only = false;
  bool merge = false;
  bool json = false;
};

std::filesystem::path checkpoint_at(const std::string& named) { return launch::find_checkpoint(named).checkpoint; }

Json manifest_json(const checkpoint::Reader& reader) {
  const checkpoint::Manifest& manifest = reader.manifest();
  Json tensors = Json::array();
  int64_t weights = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (tensor.is_weight) weights += tensor.whole.elements();
    tensors.push_back({{"name", name},
                       {"type", ir::to_string(tensor.whole)},
                       {"role", tensor.is_weight ? "weight" : "optimizer"},
                       {"pieces", tensor.pieces.size()}});
  }
  return {{"checkpoint", reader.folder().string()},
          {"step", manifest.position.step},
          {"samples_consumed", manifest.position.samples_consumed},
          {"seed", manifest.position.seed},
          {"optimizer", manifest.optimizer},
          {"code_version", manifest.code_version},
          {"bytes", manifest.bytes()},
          {"files", manifest.files.size()},
          {"weights", weights},
          {"model", manifest.model},
          {"tensors", tensors}};
}

int show_checkpoint(const CheckpointFlags& flags) {
  const Json json = manifest_json(checkpoint::Reader(checkpoint_at(flags.from.at(0))));
  if (flags.json) {
    print_json(json);
    return 0;
  }
  print_out("{}: step {}, {}, seed {}, {}, {}, {} in {}, by {}\n", json.at("checkpoint").get<std::string>(),
            json.at("step").get<int64_t>(), base::counted(json.at("samples_consumed").get<int64_t>(), "sample"),
            json.at("seed").get<int64_t>(), base::counted(json.at("weights").get<int64_t>(), "weight"),
            json.at("optimizer").get<std::string>(), memory::human_bytes(json.at("bytes").get<int64_t>()),
            base::counted(json.at("files").get<int64_t>(), "file"), json.at("code_version").get<std::string>());
  for (const Json& tensor : json.at("tensors"))
    print_out("{:<40} {:<24} {:<10} {}\n", tensor.at("name").get<std::string>(), tensor.at("type").get<std::string>(),
              tensor.at("role").get<std::string>(), base::counted(tensor.at("pieces").get<int64_t>(), "piece"));
  return 0;
}

int verify_checkpoint(const CheckpointFlags& flags) {
  const std::filesystem::path folder = checkpoint_at(flags.from.at(0));
  const std::vector<std::string> problems = checkpoint::verify(folder);
  for (const std::string& problem : problems) print_err("{}\n", problem);
  MEGACPP_REQUIRE(problems.empty(), E1204,
                  {.where = folder.string(),
                   .got = fmt::format("{} damaged files or tensors; the first: {}", problems.size(), problems.front()),
                   .wanted = "bytes as they were written",
                   .next = "resume from an older checkpoint of the run, or copy this one again"});
  if (flags.json)
    print_json({{"checkpoint", folder.string()}, {"sound", true}});
  else
    print_out("{}: every byte is as it was written\n", folder.string());
  return 0;
}

void print_written(const CheckpointFlags& flags, const checkpoint::Manifest& manifest) {
  if (flags.json)
    print_json({{"checkpoint", flags.to}, {"step", manifest.position.step}, {"bytes", manifest.bytes()}});
  else
    print_out("{}: step {}, {} in {}\n", flags.to, manifest.position.step, memory::human_bytes(manifest.bytes()),
              base::counted(std::ssize(manifest.files), "file"));
}

int convert_checkpoint(const CheckpointFlags& flags) {
  const checkpoint::Reader reader(checkpoint_at(flags.from.at(0)));
  checkpoint::ConvertOptions options{.shards = flags.shards, .weights_only = flags.weights_only};
  if (flags.adapters_only) options.adapters = checkpoint::Adapters::alone;
  if (flags.merge) options.adapters = checkpoint::Adapters::merged;
  if (!flags.type.empty()) options.type = ir::dtype_named(flags.type);
  print_written(flags, checkpoint::convert(reader, flags.to, options));
  return 0;
}

int average_checkpoints(const CheckpointFlags& flags) {
  std::vector<checkpoint::Reader> readers;
  for (const std::string& from : flags.from) readers.emplace_back(checkpoint_at(from));
  print_written(flags, checkpoint::average(readers, flags.to));
  return 0;
}

std::shared_ptr<CheckpointFlags> declare_common(CLI::App& app) {
  auto flags = std::make_shared<CheckpointFlags>();
  app.add_flag("--json", flags->json, "print JSON");
  return flags;
}

void declare_from(CLI::App& app, CheckpointFlags& flags, int most) {
  app.add_option("checkpoint", flags.from, "a checkpoint's folder, a run directory, or latest")
      ->required()
      ->expected(1, most)
      ->type_name("DIR");
}

Command show_word_of_checkpoint() {
  return {.name = "show",
          .summary = "what a checkpoint holds",
          .example = "megacpp checkpoint show latest",
          .declare = [](CLI::App& app) -> std::function<int()> {
            const auto flags = declare_common(app);
            declare_from(app, *flags, 1);
            return [flags] { return show_checkpoint(*flags); };
          }};
}

Command verify_word() {
  return {.name = "verify",
          .summary = "compare every byte with its checksum",
          .example = "megacpp checkpoint verify runs/latest/checkpoints/step-00000100",
          .declare = [](CLI::App& app) -> std::function<int()> {
            const auto flags = declare_common(app);
            declare_from(app, *flags, 1);
            return [flags] { return verify_checkpoint(*flags); };
          }};
}

Command convert_word() {
  return {.name = "convert",
          .summary = "write a checkpoint anew: other shards, weights in another type, adapters merged or alone",
          .example = "megacpp checkpoint convert latest --to weights --type bf16 --weights-only",
          .declare = [](CLI::App& app) -> std::function<int()> {
            const auto flags = declare_common(app);
            declare_from(app, *flags, 1);
            app.add_option("--to", flags->to, "folder of the new one; must not exist")->required()->type_name("DIR");
            app.add_option("--type", flags->type, "of weights: " + base::any_of_words(ir::precision_names()))
                ->check(CLI::IsMember(ir::precision_names()));
            declare_number(app, {.name = "--shards", .range = schema::between(1, 65536), .help = "files"},
                           flags->shards);
            app.add_flag("--weights-only", flags->weights_only, "leave out the state of the optimizer");
            CLI::Option* const merge =
                app.add_flag("--merge", flags->merge, "LoRA adapters into the model, which then has none");
            app.add_flag("--adapters-only", flags->adapters_only, "LoRA adapters without the model")->excludes(merge);
            return [flags] { return convert_checkpoint(*flags); };
          }};
}

Command average_word() {
  return {.name = "average",
          .summary = "the mean of the weights of several checkpoints of one model",
          .example = "megacpp checkpoint average RUN/checkpoints/step-00000100 RUN/checkpoints/step-00000200 --to mean",
          .declare = [](CLI::App& app) -> std::function<int()> {
            const auto flags = declare_common(app);
            declare_from(app, *flags, 1000);
            app.add_option("--to", flags->to, "folder of the new one; must not exist")->required()->type_name("DIR");
            return [flags] { return average_checkpoints(*flags); };
          }};
}

}  // namespace

Command checkpoint_command() {
  return {.name = "checkpoint",
          .summary = "look at, verify, convert and average checkpoints",
          .example = "megacpp checkpoint verify latest",
          .declare = [](CLI::App& app) {
            return declare_words(app, {show_word_of_checkpoint(), verify_word(), convert_word(), average_word()});
          }};
}

}  // namespace megacpp::cli
