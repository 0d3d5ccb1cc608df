// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/doctor.h"

#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/progress_line.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/run/launch/build.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/lineage/lock_file.h"

namespace megacpp::cli {
namespace {

constexpr size_t kMostCellWidth = 36;  // characters: the table fits a terminal of 150

struct DoctorFlags {
  std::vector<std::string> only;     // groups
  std::string lock;                  // file; empty: the user's
  std::optional<std::string> write;  // file
  bool json = false;
};

/// Where to write; the folder of the user's settings is made where it is not there yet.
std::filesystem::path lock_to_write(const std::string& given, const lineage::Subject& subject) {
  MEGACPP_REQUIRE(!given.empty(), E3001,
                  {.where = "the lock file",
                   .got = "neither XDG_CONFIG_HOME nor HOME names a folder",
                   .wanted = "a place for it",
                   .next = "name a file: megacpp doctor --write FILE"});
  std::filesystem::path file = given;
  if (file == lineage::users_lock_file(subject.surroundings)) base::make_folder(file.parent_path());
  base::require_writable(file);
  return file;
}

/// The one to compare with; nothing where none is named and the user has none.
std::optional<std::filesystem::path> lock_to_read(const DoctorFlags& flags, const lineage::Subject& subject) {
  if (flags.write) return std::nullopt;
  if (!flags.lock.empty()) return flags.lock;
  return lineage::find_lock({}, subject.surroundings);
}

std::vector<lineage::Finding> examine_with_progress(const DoctorFlags& flags, const lineage::Subject& subject,
                                                    const lineage::Lock* lock) {
  ProgressLine progress("doctor");
  lineage::Examination examination{.groups = flags.only, .lock = lock};
  examination.progress = [&progress](const std::string& name) {
    if (progress.is_due()) progress.print("asking " + name);
  };
  return lineage::examine(subject, examination);
}

std::string findings_text(const std::vector<lineage::Finding>& findings) {
  TextTable table({"", "probe", "here", "documented", "what to do"});
  for (const size_t column : {size_t{2}, size_t{3}, size_t{4}}) table.wrap(column, kMostCellWidth);
  for (const lineage::Finding& finding : findings)
    table.add({std::string(base::text_of(finding.status)), finding.name, finding.live, finding.documented.value_or("-"),
               finding.fix});
  return table.to_text();
}

void write_lock(const std::filesystem::path& file, const std::vector<lineage::Finding>& findings) {
  base::write_file_atomically(file, lineage::print_lock(lineage::lock_of(findings)));
  print_err("lock file written to {}\n", file.string());
}

int run_doctor(const DoctorFlags& flags) {
  MEGACPP_REQUIRE(!flags.write || (flags.only.empty() && flags.lock.empty()), E1007,
                  {.where = "--write",
                   .got = flags.lock.empty() ? "--only" : "--lock",
                   .wanted = "it alone: a lock file has all that probes find",
                   .next = "leave one of the two out"});
  const lineage::Subject subject{.code_version = launch::code_version(), .runs = launch::runs_folder()};
  std::filesystem::path written;
  if (flags.write) written = lock_to_write(*flags.write, subject);
  const std::optional<std::filesystem::path> file = lock_to_read(flags, subject);
  std::optional<lineage::Lock> lock;
  if (file) lock = lineage::read_lock(*file);
  const std::vector<lineage::Finding> findings = examine_with_progress(flags, subject, lock ? &*lock : nullptr);
  if (flags.json) {
    print_json({{"lock_file", file ? Json(file->string()) : Json()}, {"findings", base::record_json(findings)}});
  } else {
    write_output(findings_text(findings));
    print_out("compared with {}\n",
              file ? file->string() : "no lock file: megacpp doctor --write makes one of what is here");
  }
  flush_output();
  if (flags.write) write_lock(written, findings);
  if (const std::optional<base::Error> error = lineage::finding_error(findings)) throw base::Error(*error);
  return 0;
}

}  // namespace

Command doctor_command() {
  return {
      .name = "doctor",
      .summary = "whether this machine works and is still the one that runs were set up for, with what to do",
      .example =
          "megacpp doctor\n"
          "  megacpp doctor --write recipes/megacpp.lock\n"
          "  megacpp doctor --lock recipes/megacpp.lock --only libraries --only plugins",
      .declare = [](CLI::App& app) -> std::function<int()> {
        auto flags = std::make_shared<DoctorFlags>();
        app.add_option("--only", flags->only, "ask this group of probes alone; may be given several times")
            ->type_name("GROUP")
            ->take_all()
            ->allow_extra_args(false);
        app.add_option("--lock", flags->lock, "compare with this lock file; without: that of the user's settings")
            ->type_name("FILE");
        app.add_option_function<std::string>(
               "--write", [flags](const std::string& given) { flags->write = given; },
               "write what is here to a lock file: beside a recipe, where launches of it find it, or without a name "
               "into the user's settings")
            ->type_name("FILE")
            ->default_str(lineage::users_lock_file(lineage::Subject{}.surroundings).string())
            ->expected(0, 1);
        app.add_flag("--json", flags->json, "print JSON");
        return [flags] { return run_doctor(*flags); };
      }};
}

}  // namespace megacpp::cli
