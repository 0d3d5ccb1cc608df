// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/generate.h"

#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/model_source.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/progress_line.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/schema/value.h"
#include "megacpp/run/checkpoint/safetensors.h"
#include "megacpp/run/data/tokenizer.h"

namespace megacpp::cli {
namespace {

struct GenerateFlags {
  SourceFlags source;
  std::vector<std::string> prompts;
  std::vector<std::string> ids;
  std::string tokenizer;
  std::string logits;  // file; empty: none
  train::GenerateRequest request{.prompts = {}, .new_tokens = 64};
  bool json = false;
};

[[noreturn]] void refuse_ids(const std::string& got) {
  base::raise(base::Code::E1102, {.where = "--ids",
                                  .got = "'" + got + "'",
                                  .wanted = "token ids, separated by spaces",
                                  .next = "write --ids '1 5 7'"});
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::istringstream words(text);
  std::vector<int32_t> ids;
  for (std::string word; words >> word;) {
    int64_t id = 0;
    if (!schema::read_scalar(word, &id) || !std::in_range<int32_t>(id)) refuse_ids(word);
    ids.push_back(static_cast<int32_t>(id));
  }
  if (ids.empty()) refuse_ids(text);
  return ids;
}

/// Keeps the logits of every step: [steps, sequences, vocab].
class LogitsFile {
 public:
  explicit LogitsFile(std::string path) : path_(std::move(path)) {}

  void add(std::span<const float> logits) { values_.insert(values_.end(), logits.begin(), logits.end()); }
  void write(int64_t sequences, int64_t vocab) const {
    const auto steps = static_cast<int64_t>(values_.size()) / (sequences * vocab);
    checkpoint::write_safetensors(path_,
                                  std::vector<checkpoint::StoredTensor>{{.name = "logits",
                                                                         .type = ir::DType::f32,
                                                                         .shape = {steps, sequences, vocab},
                                                                         .bytes = std::as_bytes(std::span(values_))}},
                                  {});
  }

 private:
  std::string path_;
  std::vector<float> values_;
};

Json generated_json(const train::GenerateRequest& request, const train::Generated& generated,
                    const data::Tokenizer* tokenizer) {
  Json sequences = Json::array();
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    Json row{{"prompt", request.prompts[i]}, {"tokens", generated.tokens[i]}};
    if (tokenizer != nullptr) row["text"] = tokenizer->decode(generated.tokens[i]);
    sequences.push_back(row);
  }
  return {{"sequences", sequences}, {"positions", generated.positions}, {"seconds", generated.seconds}};
}

/// One sequence is printed as it grows, several one after another at the end; ids where no tokenizer is used.
class Printer {
 public:
  Printer(const GenerateFlags& flags, const data::Tokenizer* tokenizer, const KeysWithoutEffect& unread)
      : flags_(flags), tokenizer_(tokenizer), unread_(unread) {}

  /// Whether they are seen as they are made.
  bool prints_tokens() const { return !flags_.json && flags_.request.prompts.size() == 1; }

  void on_token(int32_t token) const {
    if (!prints_tokens()) return;
    write_bytes(text_of({&token, 1}));
    flush_output();
  }

  void at_end(const train::Generated& generated) const {
    if (flags_.json) {
      Json json = generated_json(flags_.request, generated, tokenizer_);
      json["without_effect"] = to_json(unread_);
      return print_json(json);
    }
    if (flags_.request.prompts.size() == 1) return write_output("\n");
    for (size_t i = 0; i < generated.tokens.size(); ++i)
      write_bytes(fmt::format("--- {}\n{}\n", i, text_of(generated.tokens[i])));
  }

 private:
  std::string text_of(std::span<const int32_t> tokens) const {
    if (tokenizer_ != nullptr) return tokenizer_->decode(tokens);
    std::string text;
    for (const int32_t token : tokens) text += fmt::format("{} ", token);
    return text;
  }

  const GenerateFlags& flags_;
  const data::Tokenizer* tokenizer_;
  const KeysWithoutEffect& unread_;
};

/// How far the command is while it shows no text: a long prompt takes a while, and so do several.
class ReadingProgress {
 public:
  ReadingProgress(const train::GenerateRequest& request, bool prints_tokens)
      : prompt_(train::longest_prompt(request)), most_(request.new_tokens), prints_tokens_(prints_tokens) {
    line_.emplace("generate");
  }

  void operator()(int64_t positions) {
    const bool is_read = positions >= prompt_;
    if (is_read && prints_tokens_) line_.reset();  // tokens go on behind it
    if (!line_ || !line_->is_due()) return;
    line_->print(is_read ? fmt::format("{} of at most {} tokens of each prompt", positions - prompt_, most_)
                         : fmt::format("{} of {} tokens of the prompt read", positions, prompt_));
  }

 private:
  int64_t prompt_, most_;
  bool prints_tokens_;
  std::optional<ProgressLine> line_;
};

void read_prompts(GenerateFlags& flags, const data::Tokenizer* tokenizer) {
  for (const std::string& ids : flags.ids) flags.request.prompts.push_back(parse_ids(ids));
  for (const std::string& prompt : flags.prompts) {
    flags.request.prompts.emplace_back();
    tokenizer->encode(prompt, flags.request.prompts.back());
  }
  if (tokenizer != nullptr) flags.request.end = tokenizer->end_of_document();
}

int run_generate(GenerateFlags& flags) {
  MEGACPP_REQUIRE(!flags.prompts.empty() || !flags.ids.empty(), E1007,
                  {.where = "generate",
                   .got = "no prompt",
                   .wanted = "prompts as texts or as token ids",
                   .next = "give --prompt TEXT, or --ids '1 5 7'"});
  const train::Sampler checked(flags.request.sampling);  // before anything is loaded
  if (!flags.logits.empty()) base::require_writable(flags.logits);
  const ModelSource source = load_model_source(flags.source);
  const KeysWithoutEffect unread = report_without_effect(source, train::ModelUse::generation);
  const auto tokenizer = flags.prompts.empty() ? nullptr : load_tokenizer_for(source, flags.tokenizer);
  read_prompts(flags, tokenizer.get());
  const auto sequences = static_cast<int64_t>(flags.request.prompts.size());
  train::Decoder decoder(source.recipe.model, source.weights,
                         {.sequences = sequences,
                          .length = train::longest_sequence(flags.request),
                          .prompt = train::shortest_prompt(flags.request),
                          .threads = source.recipe.train.threads,
                          .compute = source.recipe.train.precision});
  const Printer printer(flags, tokenizer.get(), unread);
  LogitsFile logits(flags.logits);
  ReadingProgress progress(flags.request, printer.prints_tokens());
  flags.request.on_token = [&](size_t, int32_t token) { printer.on_token(token); };
  flags.request.on_read = [&](int64_t positions) { progress(positions); };
  if (!flags.logits.empty()) flags.request.on_logits = [&](int64_t, std::span<const float> row) { logits.add(row); };
  const train::Generated generated = train::generate(decoder, flags.request);
  printer.at_end(generated);
  if (!flags.logits.empty()) logits.write(sequences, decoder.vocab());
  size_t made = 0;
  for (const std::vector<int32_t>& tokens : generated.tokens) made += tokens.size();
  print_err("{} tokens read of {} sequences, {} generated in {:.2f} s, {:.0f} tokens/s\n", generated.positions,
            sequences, made, generated.seconds, static_cast<double>(made) / generated.seconds);
  return 0;
}

void declare_sampling(CLI::App& app, train::Sampling& sampling) {
  declare_number(app,
                 {.name = "--temperature", .range = schema::at_least(0), .help = "0: always the most likely token"},
                 sampling.temperature);
  declare_number(
      app, {.name = "--top-k", .range = schema::at_least(0), .help = "choose among the k most likely tokens; 0: all"},
      sampling.top_k);
  declare_number(app,
                 {.name = "--top-p",
                  .range = {.low = 0, .high = 1, .low_excluded = true, .choices = {}},
                  .help = "choose among the most likely tokens of this probability"},
                 sampling.top_p);
  declare_number(
      app, {.name = "--seed", .range = schema::at_least(0), .help = "of the choices: the same gives the same text"},
      [&sampling](int64_t seed) { sampling.seed = static_cast<uint64_t>(seed); });
}

}  // namespace

Command generate_command() {
  return {.name = "generate",
          .summary = "continue prompts with a model, token by token",
          .example = "megacpp generate exported --prompt 'int main' --max-tokens 100 --temperature 0.8 --top-p 0.95",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<GenerateFlags>();
            declare_source(app, flags->source);
            CLI::Option* const prompt =
                app.add_option("--prompt", flags->prompts, "text to continue; several are a batch");
            prompt->take_all()->allow_extra_args(false);
            CLI::Option* const ids =
                app.add_option("--ids", flags->ids, "token ids to continue, e.g. '1 5 7', instead of texts");
            ids->take_all()->allow_extra_args(false)->excludes(prompt);
            declare_number(app,
                           {.name = "--max-tokens",
                            .range = schema::between(1, 1 << 24),
                            .help = "new tokens to generate for each prompt, at most"},
                           flags->request.new_tokens)
                ->default_str(std::to_string(flags->request.new_tokens));
            declare_read_path(app, "--tokenizer", flags->tokenizer,
                              "file, or 'bytes'; without it that of the folder, or bytes")
                ->excludes(ids);
            declare_sampling(app, flags->request.sampling);
            declare_written_path(app, "--logits", flags->logits, "write the logits of every step (safetensors)")
                ->type_name("FILE");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_generate(*flags); };
          }};
}

}  // namespace megacpp::cli
