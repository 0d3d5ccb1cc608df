// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/data_words.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/progress_line.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/run/data/bpe/trainer.h"

namespace megacpp::cli {
namespace {

struct TrainTokenizerFlags {
  std::vector<std::string> sources;
  std::string out = "tokenizer.json";
  std::string field = "text";
  int64_t vocab = 32'768;
  std::vector<std::string> special = {"<|endoftext|>"};
  int64_t threads = 0;
  bool json = false;
};

std::vector<data::bpe::CountedWord> words_of(const TrainTokenizerFlags& flags, ProgressLine& progress) {
  return data::bpe::count_words(
      {.sources = flags.sources,
       .text_field = flags.field,
       .threads = flags.threads > 0 ? static_cast<int>(flags.threads) : runtime::available_threads(),
       .on_progress = [&](int64_t bytes, int64_t total) {
         if (progress.is_due())
           progress.print(fmt::format("counted words in {:.1f} of {:.1f} MB", static_cast<double>(bytes) / 1e6,
                                      static_cast<double>(total) / 1e6));
       }});
}

/// A tokenizer that is replaced is lost, and with it what was tokenized by it. What is no file is written through.
void require_new_file(const std::string& out) {
  base::require_writable(out);
  MEGACPP_REQUIRE(!base::resolve_output(out).is_file || !base::exists(out), E1007,
                  {.where = "--out",
                   .got = out + " is there already",
                   .wanted = "the name of a file that does not exist yet",
                   .next = "remove it, or give another --out"});
}

int train_tokenizer(const TrainTokenizerFlags& flags) {
  const auto begin = std::chrono::steady_clock::now();
  require_new_file(flags.out);
  ProgressLine progress("train-tokenizer");
  const std::vector<data::bpe::CountedWord> words = words_of(flags, progress);
  const data::bpe::TrainedBpe trained = data::bpe::train_bpe(
      words, {.vocabulary = flags.vocab, .special = flags.special, .on_progress = [&](int64_t tokens, int64_t wanted) {
                if (progress.is_due()) progress.print(fmt::format("{} of {} tokens", tokens, wanted));
              }});
  base::write_file_atomically(flags.out, data::bpe::write_bpe(trained));
  const size_t tokens = trained.tokens.size() + trained.special.size();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (flags.json) {
    print_json({{"file", flags.out},
                {"vocabulary", tokens},
                {"merges", trained.merges.size()},
                {"words", words.size()},
                {"seconds", seconds}});
    return 0;
  }
  print_out("{}: {} tokens from {} different words in {:.1f} s\n", flags.out, tokens, words.size(), seconds);
  if (static_cast<int64_t>(tokens) < flags.vocab)
    print_out("fewer than the {} that were wanted: no other pair occurs twice in this text\n", flags.vocab);
  return 0;
}

std::function<int()> declare_train_tokenizer(CLI::App& app) {
  auto flags = std::make_shared<TrainTokenizerFlags>();
  app.add_option("TEXT", flags->sources, "files, folders or globs; every line of a .jsonl file is a document")
      ->required();
  app.add_option("--out", flags->out, "the file to write; must not exist")->capture_default_str();
  declare_number(
      app,
      {.name = "--vocab", .range = schema::at_least(1), .help = "tokens in all: 256 bytes, merges and special tokens"},
      flags->vocab)
      ->default_str(std::to_string(flags->vocab));
  app.add_option("--special", flags->special, "special tokens; they get the highest ids")->capture_default_str();
  app.add_option("--field", flags->field, "the member of a .jsonl line that holds the text")->capture_default_str();
  declare_number(app,
                 {.name = "--threads",
                  .range = schema::between(0, 1024),
                  .help = "0 = all cores; the result is the same for any number"},
                 flags->threads);
  app.add_flag("--json", flags->json, "print JSON");
  return [flags] { return train_tokenizer(*flags); };
}

}  // namespace

Command train_tokenizer_word() {
  return {.name = "train-tokenizer",
          .summary = "train a byte-level BPE on text and write it as a tokenizer.json",
          .example =
              "megacpp data train-tokenizer src/ --vocab 32768 --out tokenizer.json\n"
              "  megacpp data train-tokenizer corpus.jsonl --field content --special '<|endoftext|>'",
          .declare = declare_train_tokenizer};
}

}  // namespace megacpp::cli
