// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/command.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/suggest.h"
#include "megacpp/launch/build.h"

namespace megacpp::cli {

#define MEGACPP_COMMAND(name) Command name##_command();
#include "megacpp/cli/commands.inc"
#undef MEGACPP_COMMAND

const std::vector<Command>& all_commands() {
  static const std::vector<Command> table = {
#define MEGACPP_COMMAND(name) name##_command(),
#include "megacpp/cli/commands.inc"
#undef MEGACPP_COMMAND
  };
  return table;
}

std::function<int()> declare_words(CLI::App& app, const std::vector<Word>& words, std::function<int()> no_word) {
  app.require_subcommand(no_word ? 0 : 1, 1);
  std::vector<std::pair<const CLI::App*, std::function<int()>>> bodies;
  for (const Word& word : words) {
    CLI::App* sub = app.add_subcommand(word.name, word.summary);
    sub->footer("Example:\n  " + word.examples + "\n");
    bodies.emplace_back(sub, word.declare(*sub));
  }
  return [bodies, no_word = std::move(no_word)] {
    for (const auto& [sub, body] : bodies)
      if (sub->parsed()) return body();
    MEGACPP_CHECK(no_word) << "no word of the command was parsed";
    return no_word();
  };
}

namespace {

constexpr const char* kAbout =
    "MegaCpp trains hybrid language models (attention, Mamba-2, experts, recurrent blocks)\n"
    "and knows every byte before step 0.\n";

// The app whose words a misspelt one is compared with: the command given, down to its last word, or megacpp itself.
const CLI::App& speaker(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : speaker(*chosen[0]);
}

// "megacpp", "megacpp ops", "megacpp plugins fetch".
std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  return known;
}

// The first word the parser had no use for; a flag rather than its value.
std::string unexpected_word(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  for (const std::string& word : extras)
    if (word.rfind("--", 0) == 0) return word.substr(0, word.find('='));
  return extras.empty() ? "" : extras[0];
}

// The next step for a word the parser had no use for.
std::string advice(const CLI::App& app, const CLI::App& command, const std::string& word, const std::string& help) {
  const std::vector<std::string> known = known_words(command);
  const bool misplaced =
      &command != &app && word.rfind("--", 0) == 0 && std::find(known.begin(), known.end(), word) != known.end();
  if (misplaced) return "put flags after the command: " + full_name(command) + " " + word;
  return word.empty() ? help : base::did_you_mean(word, known, help);
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error, int argc, const char* const* argv) {
  std::string line = "megacpp";
  for (int i = 1; i < argc; ++i) line += " " + std::string(argv[i]);
  const CLI::App& command = speaker(app);
  const std::string help = "see " + full_name(command) + " --help";
  base::raise(
      base::Code::E1007,
      {.where = line, .got = error.what(), .wanted = "", .next = advice(app, command, unexpected_word(app), help)});
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App app(kAbout, "megacpp");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", "megacpp " + launch::code_version(), "print the version and exit");
  std::map<std::string, std::function<int()>> bodies;
  for (const Command& command : all_commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer("Example:\n  " + command.example + "\n");
    bodies[command.name] = command.declare(*sub);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(speaker(app).help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion&) {
    std::printf("%s\n", app.version().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    refuse(app, error, argc, argv);
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  }
  return bodies.at(chosen[0]->get_name())();
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "error %s\n", error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error E9001 %s\n", error.what());
    return base::exit_status(base::ErrorClass::internal);
  }
}

}  // namespace megacpp::cli
