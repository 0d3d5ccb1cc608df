// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/evaluate.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/model_source.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/progress_line.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/run/data/document_reader.h"
#include "megacpp/run/data/tokenizer.h"

namespace megacpp::cli {
namespace {

struct EvalFlags {
  SourceFlags source;
  std::vector<std::string> text;
  std::string tokenizer;
  bool json = false;
};

/// The held-out text of the flags, read as it is evaluated.
class HeldOut {
 public:
  HeldOut(const EvalFlags& flags, const data::Tokenizer& tokenizer)
      : tokenizer_(tokenizer), reader_(flags.text, tokenizer) {}

  bool read(std::vector<int32_t>& tokens) {
    if (!reader_.next(tokens)) return false;
    if (!first_bytes_ && !tokens.empty()) first_bytes_ = std::ssize(tokenizer_.decode({tokens.data(), 1}));
    return true;
  }

  /// That the predicted tokens stand for: all that was read, without the first token.
  int64_t bytes() const { return reader_.bytes() - first_bytes_.value_or(0); }
  std::string progress_text(int64_t predicted) const {
    return fmt::format("{} tokens, {:.1f} of {:.1f} MB read", predicted, static_cast<double>(reader_.bytes()) / 1e6,
                       static_cast<double>(reader_.total_bytes()) / 1e6);
  }

 private:
  const data::Tokenizer& tokenizer_;
  data::DocumentReader reader_;
  std::optional<int64_t> first_bytes_;  // of the first token
};

train::Evaluation evaluate_with_progress(const ModelSource& source, HeldOut& held_out) {
  ProgressLine line("eval");
  train::EvaluateRequest request;
  request.next_document = [&](std::vector<int32_t>& tokens) { return held_out.read(tokens); };
  request.on_batch = [&](int64_t predicted) {
    if (line.is_due()) line.print(held_out.progress_text(predicted));
  };
  return train::evaluate(source.recipe, source.weights, request);
}

int run_eval(const EvalFlags& flags) {
  const ModelSource source = load_model_source(flags.source);
  const KeysWithoutEffect unread = report_without_effect(source, train::ModelUse::evaluation);
  const auto tokenizer = load_tokenizer_for(source, flags.tokenizer);
  HeldOut held_out(flags, *tokenizer);
  const train::Evaluation result = evaluate_with_progress(source, held_out);
  const double bits_per_byte = result.bits_per_byte(held_out.bytes());
  if (flags.json)
    print_json({{"loss", result.loss},
                {"bits_per_byte", bits_per_byte},
                {"tokens", result.tokens},
                {"bytes", held_out.bytes()},
                {"tokenizer", tokenizer->name()},
                {"without_effect", to_json(unread)}});
  else
    print_out("loss {:.4f}  bits per byte {:.4f}  {}  {}\n", result.loss, bits_per_byte,
              base::counted(result.tokens, "token"), base::counted(held_out.bytes(), "byte"));
  return 0;
}

}  // namespace

Command eval_command() {
  return {.name = "eval",
          .summary = "loss and bits per byte of a model on held-out text, on any layout",
          .example = "megacpp eval exported --text held_out.txt --set layout.data_parallel=2",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<EvalFlags>();
            declare_source(app, flags->source);
            app.add_option("--text", flags->text, "files, folders or globs to read")
                ->required()
                ->take_all()
                ->allow_extra_args(false);
            declare_read_path(app, "--tokenizer", flags->tokenizer,
                              "file, or 'bytes'; without it that of the folder, or bytes");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_eval(*flags); };
          }};
}

}  // namespace megacpp::cli
