// SPDX-License-Identifier: Apache-2.0
// One training step of a tiny model on every backend that is here, through the same passes and the same loader as any
// run: compiled, loaded, run, and its loss held against that of a model that knows nothing yet.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/source.h"
#include "megacpp/run/lineage/probe.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"

namespace megacpp::lineage {
namespace {

constexpr std::chrono::seconds kStepLimit(60);  // compilers of devices take their time for the first program
constexpr int64_t kVocab = 256;

constexpr const char* kTinyRecipe = R"(name: doctor
model:
  pattern: AE
  depth: 2
  hidden: 16
  vocab: 256
  attention: {heads: 2, kv_heads: 2, head_dim: 8}
  feed_forward: {intermediate: 32}
train: {batch: 2, sequence: 8, steps: 1, log_every: 1, threads: 1}
xla: {cache: "off"}
)";

/// Tokens that count up.
class Counting final : public data::TokenSource {
 public:
  int64_t sequences(const data::Draw&, int64_t) const override { return kVocab; }
  void read(const data::Draw&, int64_t sample, std::span<int32_t> tokens, std::span<int32_t> segments) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>((sample + static_cast<int64_t>(i)) % kVocab);
    for (int32_t& segment : segments) segment = 0;
  }
  int64_t vocabulary() const override { return kVocab; }
  uint64_t fingerprint() const override { return 0; }
  std::string describe() const override { return "tokens that count up"; }
};

double first_loss(const runtime::Backend& backend, const recipe::Recipe& recipe) {
  recipe::require_supported(backend.cannot_run, backend.name, recipe);
  const plan::Plan plan = plan::PlannedRecipe(recipe).plan();
  const recipe::RunRequest request = recipe::run_request(recipe);
  const compile::Compiled compiled =
      compile::compile_training(plan, runtime::target_on(backend, request, plan.parallel.mesh));
  const std::unique_ptr<runtime::Executable> run =
      runtime::load_on(backend, request, compiled, runtime::load_options(request, compiled.mesh.chips()));
  train::RunState(compiled, *run).initialise_weights(static_cast<uint64_t>(recipe.train.seed));
  const Counting source;
  const data::Batches batches(source, train::batch_options(recipe));
  const std::vector<train::StepReport> reports =
      train::train({.recipe = recipe, .compiled = compiled, .batches = batches, .run = *run});
  return reports.front().loss.value();
}

/// Before it has learnt anything a model takes all tokens for about equally likely.
std::string run_step(const runtime::Backend& backend, const recipe::Recipe& recipe) {
  const double loss = first_loss(backend, recipe), even = std::log(static_cast<double>(kVocab));
  MEGACPP_REQUIRE(std::abs(loss - even) < 1, E3201,
                  {.where = "the first loss on backend " + backend.name,
                   .got = fmt::format("{:.4f}", loss),
                   .wanted = fmt::format("about {:.4f}, that of even chances", even),
                   .next = "megacpp train --check-nans on this machine, and on another: one of them computes wrongly"});
  return fmt::format("a step compiled and run, loss {:.4f}", loss);
}

/// Devices that a platform's programs run on, as the system shows them; a platform without any runs on the host.
struct PlatformDevices {
  std::string_view platform;
  std::vector<std::string> files;
};

/// The platform's devices are not here, though its compiler may be.
bool lacks_devices(const std::string& platform, const Subject& subject) {
  static const std::array<PlatformDevices, 2> table = {
      {{"cuda", {"dev/nvidiactl", "dev/dxg"}}, {"tpu", {"dev/accel0", "dev/vfio/0"}}}};
  for (const PlatformDevices& devices : table) {
    if (devices.platform != platform) continue;
    for (const std::string& file : devices.files)
      if (base::exists(subject.surroundings.root / file)) return false;
    return true;
  }
  return false;
}

/// What is not here cannot be tried, and is no failure: a lock file says what must be here.
std::string try_backend(const runtime::Backend& backend, const std::string& platform, const Subject& subject) {
  std::vector<std::string> overrides = {"backend=" + backend.name};
  if (!platform.empty()) overrides.push_back("xla.plugin=" + platform);
  const recipe::Recipe recipe = recipe::parse(kTinyRecipe, "the doctor's recipe", overrides);
  const base::Decision usable = backend.usable(recipe::run_request(recipe));
  if (!usable) return "not tried: " + usable.reason();
  if (lacks_devices(platform, subject)) return "not tried: no device of the platform is here";
  return run_step(backend, recipe);
}

Probe compile_probe(const runtime::Backend& backend, const std::string& platform) {
  return {.name = fmt::format("compile.{}{}{}", backend.name, platform.empty() ? "" : ".", platform),
          .group = "compile",
          .time_limit = kStepLimit,
          .ask = [&backend, platform](const Subject& subject) { return try_backend(backend, platform, subject); }};
}

}  // namespace

std::vector<Probe> compile_probes() {
  std::vector<Probe> probes;
  for (const runtime::Backend& backend : runtime::all_backends()) {
    if (backend.platforms.empty()) probes.push_back(compile_probe(backend, ""));
    for (const runtime::Platform& platform : backend.platforms) probes.push_back(compile_probe(backend, platform.name));
  }
  return probes;
}

}  // namespace megacpp::lineage
