// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_export.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/model_source.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::cli {
namespace {

struct ExportFlags {
  SourceFlags source;
  std::string folder;
  std::string cls;
  std::string dtype;
  std::string tokenizer;
  std::optional<int64_t> shard_bytes;
  bool json = false;
};

int run_export(const ExportFlags& flags) {
  const ModelSource source = load_model_source(flags.source);
  const KeysWithoutEffect unread = report_without_effect(source, train::ModelUse::conversion);
  checkpoint::HfExportOptions options{.cls = flags.cls, .shard_bytes = flags.shard_bytes};
  // A given type is that of all tensors; without one a folder's tensors keep theirs.
  if (source.imported && flags.dtype.empty()) options.like = &*source.imported;
  if (!flags.dtype.empty()) options.type = checkpoint::real_type_named(flags.dtype);
  options.carried = flags.tokenizer.empty() ? source.folder : std::filesystem::path(flags.tokenizer);
  const checkpoint::HfExportSummary summary =
      checkpoint::export_hf_folder(flags.folder, source.recipe.model, source.weights, options);
  if (flags.json) {
    print_json({{"folder", flags.folder},
                {"class", summary.cls},
                {"tensors", summary.tensors},
                {"bytes", summary.bytes},
                {"files", summary.files},
                {"without_effect", to_json(unread)}});
    return 0;
  }
  print_out("{}: {}, {}, {}\n", flags.folder, summary.cls, base::counted(summary.tensors, "tensor"),
            memory::human_bytes(summary.bytes));
  for (const std::string& file : summary.files) print_out("  {}\n", file);
  return 0;
}

}  // namespace

Command export_command() {
  return {.name = "export",
          .summary = "write a model as a Hugging Face folder that transformers loads",
          .example = "megacpp export path/to/model exported --dtype bf16",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<ExportFlags>();
            declare_source(app, flags->source);
            app.add_option("folder", flags->folder, "folder to write; must not exist")->required()->type_name("DIR");
            app.add_option("--class", flags->cls, "model class; without it the first that computes the same");
            app.add_option("--dtype", flags->dtype, "of all tensors; without it f32, or as in the folder they are from")
                ->check(CLI::IsMember(checkpoint::real_type_names()));
            declare_read_path(app, "--tokenizer", flags->tokenizer, "folder whose tokenizer files come along")
                ->type_name("DIR");
            declare_number(app,
                           {.name = "--shard-bytes",
                            .range = schema::at_least(1),
                            .help = "most bytes of one safetensors file; without it the files of the folder "
                                    "they are from, or 5 GB"},
                           [flags](int64_t bytes) { flags->shard_bytes = bytes; });
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_export(*flags); };
          }};
}

}  // namespace megacpp::cli
