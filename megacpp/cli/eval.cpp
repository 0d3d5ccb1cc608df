// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/evaluate.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/model_source.h"
#include "megacpp/cli/output.h"
#include "megacpp/data/text_corpus.h"
#include "megacpp/data/tokenizer.h"

namespace megacpp::cli {
namespace {

struct EvalFlags {
  SourceFlags source;
  std::vector<std::string> text;
  std::string tokenizer;
  bool json = false;
};

/// Held-out documents as tokens, one behind the other.
struct HeldOut {
  std::vector<int32_t> tokens;
  std::vector<int64_t> begins;
  int64_t bytes = 0;  // without those of the first token
};

HeldOut read_held_out(const EvalFlags& flags, const data::Tokenizer& tokenizer) {
  const data::TextCorpus corpus = data::load_text(flags.text);
  const std::string_view all(reinterpret_cast<const char*>(corpus.bytes.data()), corpus.bytes.size());
  HeldOut held_out;
  for (size_t i = 0; i < corpus.document_begins.size(); ++i) {
    const auto begin = static_cast<size_t>(corpus.document_begins[i]);
    const size_t end =
        i + 1 < corpus.document_begins.size() ? static_cast<size_t>(corpus.document_begins[i + 1]) : all.size();
    held_out.begins.push_back(std::ssize(held_out.tokens));
    tokenizer.encode(all.substr(begin, end - begin), held_out.tokens);
  }
  held_out.bytes = std::ssize(corpus.bytes);
  if (!held_out.tokens.empty()) held_out.bytes -= std::ssize(tokenizer.decode({held_out.tokens.data(), 1}));
  return held_out;
}

int run_eval(const EvalFlags& flags) {
  const ModelSource source = load_model_source(flags.source);
  const auto tokenizer = load_tokenizer_for(source, flags.tokenizer);
  const HeldOut held_out = read_held_out(flags, *tokenizer);
  const train::Evaluation result =
      train::evaluate(source.recipe, source.weights,
                      {.tokens = held_out.tokens,
                       .begins = held_out.begins,
                       .bytes = held_out.bytes,
                       .on_batch = [](int64_t done, int64_t all) { print_err("\r{} of {} tokens", done, all); }});
  print_err("\n");
  if (flags.json)
    print_json({{"loss", result.loss},
                {"bits_per_byte", result.bits_per_byte},
                {"tokens", result.tokens},
                {"bytes", held_out.bytes},
                {"tokenizer", tokenizer->name()}});
  else
    print_out("loss {:.4f}  bits per byte {:.4f}  {} tokens  {} bytes\n", result.loss, result.bits_per_byte,
              result.tokens, held_out.bytes);
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
            app.add_option("--tokenizer", flags->tokenizer,
                           "file, or 'bytes'; without it that of the folder, or bytes");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_eval(*flags); };
          }};
}

}  // namespace megacpp::cli
