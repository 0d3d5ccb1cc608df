// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "megacpp/cli/catalog_flags.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/stop_signals.h"
#include "megacpp/evidence/http/access.h"
#include "megacpp/evidence/serve/server.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::cli {
namespace {

struct ServeFlags {
  std::string runs;
  std::string address = "127.0.0.1";
  std::string token;
  int64_t port = 8077;
  launch::CatalogChoice catalog;
};

/// A folder that was named must be there; the default one may still come.
std::filesystem::path served_folder(const ServeFlags& flags) {
  if (flags.runs.empty()) return launch::runs_folder();
  MEGACPP_REQUIRE(base::is_folder(flags.runs), E1008,
                  {.where = "--runs",
                   .got = flags.runs + ": no such folder",
                   .wanted = "a folder of run directories",
                   .next = "check the path, or leave the flag out to serve the folder that training writes to"});
  return flags.runs;
}

int serve_folder(const ServeFlags& flags, const std::filesystem::path& folder) {
  const base::StopRequest stop;
  serve::RunIndex runs(folder);
  serve::Listen listen;
  listen.address = flags.address;
  listen.port = static_cast<int>(flags.port);
  listen.token = flags.token;
  const serve::Server server(listen, runs, flags.catalog);
  print_out("{}\n", server.url());
  flush_output();
  print_err("serving the runs in {}; Ctrl-C stops\n", folder.string());
  if (launch::runs_in(folder).empty()) print_err("no runs here yet; --runs or MEGACPP_RUNS names another folder\n");
  while (!stop.has_come()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return base::kInterruptedStatus;
}

int run_serve(const ServeFlags& flags) {
  http::access_for(flags.address, static_cast<int>(flags.port), flags.token);
  return serve_folder(flags, served_folder(flags));
}

}  // namespace

Command serve_command() {
  return {
      .name = "serve",
      .summary = "a dashboard of runs in the browser: live progress, comparison, memory, ceilings, catalog",
      .example =
          "megacpp serve\n"
          "  megacpp serve --runs /data/runs --port 0\n"
          "  megacpp serve --bind 0.0.0.0 --token $(head -c 24 /dev/urandom | base64 | tr -d '+/=')",
      .declare = [](CLI::App& app) -> std::function<int()> {
        auto flags = std::make_shared<ServeFlags>();
        declare_read_path(app, "--runs", flags->runs,
                          "folder of run directories, which is only read; without: runs, or what MEGACPP_RUNS names")
            ->type_name("DIR");
        declare_number(
            app,
            {.name = "--port", .range = schema::between(0, 65535), .help = "to listen on; 0 takes any that is free"},
            flags->port)
            ->default_str(std::to_string(flags->port));
        app.add_option("--bind", flags->address,
                       "numeric address to listen on; others than this machine's own only with --token")
            ->type_name("ADDR")
            ->capture_default_str();
        // An empty one, as a variable that is not set leaves it, is refused and not taken for none.
        app.add_option_function<std::string>(
               "--token",
               [flags](const std::string& given) {
                 http::require_token(given);
                 flags->token = given;
               },
               "what every reader must know; the printed address has it")
            ->type_name("T");
        declare_catalog_flags(app, flags->catalog, "show one");
        return [flags] { return run_serve(*flags); };
      }};
}

}  // namespace megacpp::cli
