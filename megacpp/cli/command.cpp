// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/command.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/run/launch/build.h"

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

std::function<int()> declare_words(CLI::App& app, const std::vector<Command>& words, std::function<int()> no_word) {
  app.require_subcommand(no_word ? 0 : 1, 1);
  std::vector<std::pair<const CLI::App*, std::function<int()>>> bodies;
  for (const Command& word : words) {
    CLI::App* sub = app.add_subcommand(word.name, word.summary);
    sub->footer("Example:\n  " + word.example + "\n");
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

std::string command_line(int argc, const char* const* argv) {
  std::string line = "megacpp";
  for (int i = 1; i < argc; ++i) line += " " + std::string(argv[i]);
  return line;
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error, const std::string& line) {
  const CLI::App& command = speaker(app);
  const std::string help = "see " + full_name(command) + " --help";
  base::raise(base::Code::E1007, {.where = line,
                                  .got = error.what(),
                                  .wanted = "words and flags of " + full_name(command),
                                  .next = advice(app, command, unexpected_word(app), help)});
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App app(kAbout, "megacpp");
  app.set_version_flag("--version", "megacpp " + launch::code_version(), "print the version and exit");
  const std::function<int()> body = declare_words(app, all_commands(), [&app] {
    write_output(app.help());
    return 0;
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_output(speaker(app).help());
    return 0;
  } catch (const CLI::CallForVersion&) {
    write_output(app.version() + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    refuse(app, error, command_line(argc, argv));
  }
  return body();
}

// Also where the line itself is refused, and nobody has parsed the flag.
bool wants_json(int argc, const char* const* argv) {
  return std::any_of(argv, argv + argc,
                     [](std::string_view word) { return word == "--json" || word.starts_with("--json="); });
}

int report(const base::Error& error, bool as_json) {
  write_message("error " + std::string(error.what()) + "\n");
  try {
    if (as_json) end_json(&error);
    flush_output();
  } catch (const base::Error&) {
    // stderr has the error already, whatever stdout takes.
  }
  return error.exit_status();
}

base::Error host_memory_error(const std::string& line) {
  return {base::Code::E2005,
          {.where = line,
           .got = "the system refused an allocation",
           .wanted = "memory for what the command keeps beside its plan",
           .next = "free memory, raise the limit of the process or container, or make the plan smaller"}};
}

/// Nothing where it is no lack of threads.
std::optional<base::Error> thread_error(const std::string& line, const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) return std::nullopt;
  return base::Error(base::Code::E3002,
                     {.where = line,
                      .got = "the system refused to start a thread",
                      .wanted = "a thread, and memory for its stack",
                      .next = "raise the limit on address space (ulimit -v) or on threads (ulimit -u)"});
}

base::Error unexpected_error(const std::string& line, const std::string& words) {
  return {base::Code::E9001,
          {.where = line,
           .got = words,
           .wanted = "an error with a code of its own",
           .next = "this is a defect of megacpp: please report it with the command and the recipe"}};
}

}  // namespace

int run(int argc, const char* const* argv) {
  const bool as_json = wants_json(argc, argv);
  begin_output();
  try {
    const int status = parse_and_run(argc, argv);
    end_json(nullptr);
    flush_output();
    return status;
  } catch (const base::Error& error) {
    return report(error, as_json);
  } catch (const std::bad_alloc&) {
    return report(host_memory_error(command_line(argc, argv)), as_json);
  } catch (const std::system_error& error) {
    const std::string line = command_line(argc, argv);
    return report(thread_error(line, error).value_or(unexpected_error(line, error.what())), as_json);
  } catch (const std::exception& error) {
    return report(unexpected_error(command_line(argc, argv), error.what()), as_json);
  }
}

}  // namespace megacpp::cli
