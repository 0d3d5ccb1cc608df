// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/save_together.h"

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/runtime/fault_injection.h"

namespace megacpp::train {
namespace {

constexpr char kDone = '+', kFailed = '-';  // before what a process says

std::string said_by(const std::function<std::string()>& work) {
  const auto failed = [](const std::string& why) { return kFailed + runtime::host_name() + ": " + why; };
  try {
    return kDone + work();
  } catch (const base::Error& error) {
    return failed(error.problem().where + ": " + error.problem().got);
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

/// One part of a save, which all processes do: what each of them made, or E3001 on all.
class Together {
 public:
  Together(collectives::World& processes, std::string folder) : processes_(processes), folder_(std::move(folder)) {}

  std::vector<std::string> all_do(std::string_view part, const std::function<std::string()>& work) {
    std::vector<std::string> said = processes_.share(part, said_by(work));
    std::string failed;
    for (size_t process = 0; process < said.size(); ++process) {
      const bool is_done = said[process].front() == kDone;
      said[process].erase(0, 1);
      if (!is_done)
        failed += (failed.empty() ? "process " : "; process ") + std::to_string(process) + " on " + said[process];
    }
    MEGACPP_REQUIRE(failed.empty(), E3001,
                    {.where = folder_,
                     .got = failed,
                     .wanted = "a checkpoint that every process has written its part of",
                     .next = "mend the disk of that host; the checkpoints before stay as they are"});
    return said;
  }

 private:
  collectives::World& processes_;
  const std::string folder_;
};

}  // namespace

checkpoint::Manifest save_together(collectives::World& processes, const checkpoint::Store& store,
                                   checkpoint::Manifest header, std::span<const checkpoint::PieceBytes> pieces) {
  const int64_t step = header.position.step;
  const bool is_first = processes.is_coordinator();
  Together together(processes, store.path_of(step).string());
  try {
    together.all_do("checkpoint begins", [&] {
      if (is_first) store.begin(step);
      return std::string();
    });
    const std::vector<std::string> parts =
        together.all_do("parts of a checkpoint", [&] { return checkpoint::write_part(store, step, pieces); });
    together.all_do("checkpoint is complete", [&] {
      if (is_first) header = checkpoint::commit_parts(store, std::move(header), parts);
      return std::string();
    });
    return header;
  } catch (...) {
    if (is_first) store.discard(step);
    throw;
  }
}

}  // namespace megacpp::train
