// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/data_words.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/progress_line.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/stop_signals.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/run/data/indexed_dataset.h"
#include "megacpp/run/data/tokenize.h"

namespace megacpp::cli {
namespace {

// ---- tokenize

struct TokenizeFlags {
  std::vector<std::string> sources;
  std::string out;
  std::string tokenizer = "bytes";
  std::string field = "text";
  int64_t threads = 0;
  bool json = false;
};

std::string progress_text(const data::TokenizeProgress& progress, double seconds) {
  const double megabytes = static_cast<double>(progress.text_bytes - progress.resumed_bytes) / 1e6;
  return fmt::format("{:.1f} of {:.1f} MB, {:.1f} MB/s, {} documents, {} tokens",
                     static_cast<double>(progress.text_bytes) / 1e6, static_cast<double>(progress.total_bytes) / 1e6,
                     megabytes / std::max(seconds, 1e-3), progress.documents, progress.tokens);
}

data::TokenizeProgress tokenize_with_progress(const data::Tokenizer& tokenizer, const TokenizeFlags& flags,
                                              const std::string& out) {
  const base::StopRequest stop;
  const auto begin = std::chrono::steady_clock::now();
  ProgressLine line("tokenize");
  return data::tokenize(tokenizer,
                        {.sources = flags.sources,
                         .out = out,
                         .text_field = flags.field,
                         .threads = flags.threads > 0 ? static_cast<int>(flags.threads) : runtime::available_threads(),
                         .on_progress =
                             [&](const data::TokenizeProgress& progress) {
                               if (!line.is_due()) return;
                               const auto now = std::chrono::steady_clock::now();
                               line.print(progress_text(progress, std::chrono::duration<double>(now - begin).count()));
                             },
                         .should_stop = [&] { return stop.has_come(); }});
}

int tokenize(const TokenizeFlags& flags) {
  const std::string out = data::dataset_prefix(flags.out).string();
  data::require_new_dataset(out);
  const std::unique_ptr<const data::Tokenizer> tokenizer = data::load_tokenizer(flags.tokenizer);
  const data::TokenizeProgress done = tokenize_with_progress(*tokenizer, flags, out);
  if (flags.json)
    print_json({{"dataset", out},
                {"finished", done.finished},
                {"documents", done.documents},
                {"tokens", done.tokens},
                {"text_bytes", done.text_bytes},
                {"resumed_bytes", done.resumed_bytes},
                {"tokenizer", tokenizer->name()},
                {"vocabulary", tokenizer->vocab_size()}});
  if (!done.finished) {
    print_err("stopped after {:.1f} MB; the same command goes on from there\n",
              static_cast<double>(done.text_bytes) / 1e6);
    return base::kInterruptedStatus;
  }
  if (!flags.json)
    print_out(
        "{}: {} of {}, {:.2f} bytes of text each; use it with --set data.blend=[{}] --set "
        "model.vocab={}\n",
        out, base::counted(done.tokens, "token"), base::counted(done.documents, "document"),
        static_cast<double>(done.text_bytes) / static_cast<double>(std::max<int64_t>(1, done.tokens)), out,
        tokenizer->vocab_size());
  return 0;
}

std::function<int()> declare_tokenize(CLI::App& app) {
  const auto flags = std::make_shared<TokenizeFlags>();
  app.add_option("TEXT", flags->sources, "files, folders or globs; .jsonl has a document in every line")->required();
  declare_written_path(app, "--out", flags->out, "prefix of the dataset: PREFIX.bin and PREFIX.idx")->required();
  app.add_option("--tokenizer", flags->tokenizer, "bytes, or a tokenizer's file or folder");
  app.add_option("--field", flags->field, "member of a .jsonl line that holds the text");
  declare_number(app, {.name = "--threads", .range = schema::between(0, 1024), .help = "0 = all cores"},
                 flags->threads);
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return tokenize(*flags); };
}

// ---- show

struct ShowFlags {
  std::string dataset;
  bool json = false;
};

int show(const ShowFlags& flags) {
  const data::IndexedDataset dataset(flags.dataset);
  const data::TokenIndex& index = dataset.index();
  const int32_t largest = dataset.largest_token();
  if (flags.json) {
    print_json({{"dataset", dataset.name()},
                {"type", std::string(index.type().name)},
                {"tokens", index.tokens()},
                {"documents", index.documents()},
                {"empty_documents", index.empty_documents()},
                {"sequences", index.sequences()},
                {"largest_token", largest},
                {"bytes", index.tokens() * index.type().bytes},
                {"fingerprint", fmt::format("{:016x}", dataset.fingerprint())}});
    return 0;
  }
  print_out(
      "dataset    {}\ntokens     {} as {}, {:.1f} MB; the largest is {}: model.vocab must be above it\n"
      "documents  {}, {} of them empty, {:.0f} tokens each\nfingerprint {:016x}\n",
      dataset.name(), index.tokens(), index.type().name, static_cast<double>(index.tokens() * index.type().bytes) / 1e6,
      largest, index.documents(), index.empty_documents(),
      static_cast<double>(index.tokens()) / static_cast<double>(std::max<int64_t>(1, index.documents())),
      dataset.fingerprint());
  return 0;
}

std::function<int()> declare_show(CLI::App& app) {
  const auto flags = std::make_shared<ShowFlags>();
  app.add_option("DATASET", flags->dataset, "its prefix, .bin or .idx")->required();
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return show(*flags); };
}

}  // namespace

Command data_command() {
  return {.name = "data",
          .summary = "turn text into datasets of tokens, show them, train tokenizers",
          .example = "megacpp data tokenize docs --out build/docs",
          .declare = [](CLI::App& app) -> std::function<int()> {
            return declare_words(
                app, {{"tokenize",
                       "write text as a dataset in Megatron's .bin/.idx format; goes on "
                       "where an earlier call was stopped",
                       "megacpp data tokenize docs --out build/docs\n  megacpp data tokenize "
                       "'corpus/*.jsonl' --field content --tokenizer tokenizer.json --out corpus",
                       declare_tokenize},
                      {"show", "what a dataset holds; reads all of it", "megacpp data show build/docs", declare_show},
                      train_tokenizer_word()});
          }};
}

}  // namespace megacpp::cli
