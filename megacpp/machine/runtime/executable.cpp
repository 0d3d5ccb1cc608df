// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/executable.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/core/ir/chip_name.h"
#include "megacpp/program/compile/state_table.h"

namespace megacpp::runtime {

TierUse ChipMemory::in(ir::Tier tier) const {
  const auto at = std::ranges::find(away, tier, &TierUse::tier);
  return at == away.end() ? TierUse{.tier = tier} : *at;
}
namespace {

template <typename Tensors, typename Name>
std::vector<std::string> names_of(const Tensors& tensors, const Name& name) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors)
    if (std::string text = name(tensor); !text.empty()) names.push_back(std::move(text));
  return names;
}

[[noreturn]] void refuse_name(const std::string& where, const std::string& name,
                              const std::vector<std::string>& known) {
  base::raise(base::Code::E1203,
              {.where = where,
               .got = "'" + name + "'",
               .wanted = "one of the " + std::to_string(known.size()) + " tensors of that kind",
               .next = base::did_you_mean(name, known, "use a name of the compiled run's own tables")});
}

[[noreturn]] void refuse_size(const std::string& where, const ir::TensorType& type, size_t bytes) {
  base::raise(base::Code::E1203, {.where = where,
                                  .got = std::to_string(bytes) + " bytes",
                                  .wanted = std::to_string(type.bytes()) + " bytes: " + ir::to_string(type),
                                  .next = "give the chip's part of the tensor, in its own dtype"});
}

}  // namespace

Executable::Executable(const compile::Compiled& compiled, const std::vector<std::string>& fetches)
    : compiled_(compiled), ports_(step_ports(compiled, fetches)) {}

void Executable::write_state(const std::string& name, int64_t chip, std::span<const std::byte> part) {
  put_state(kept_state(name, chip, part.size()), chip, part);
}

void Executable::read_state(const std::string& name, int64_t chip, std::span<std::byte> part) const {
  get_state(kept_state(name, chip, part.size()), chip, part);
}

void Executable::fill_state(const std::string& name, int64_t chip, const FillPiece& fill) {
  make_state(kept_state(name, chip), chip, fill);
}

void Executable::make_state(const compile::StateTensor& tensor, int64_t chip, const FillPiece& fill) {
  const auto bytes = static_cast<size_t>(compile::local_type(tensor, compiled_.mesh).bytes());
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::span<std::byte> part(memory.get(), bytes);
  fill(0, part);
  put_state(tensor, chip, part);
}

const compile::StateTensor& Executable::kept_state(const std::string& name, int64_t chip) const {
  const compile::StateTensor* const tensor = compiled_.programs_of(chip).find_state(name);
  if (tensor == nullptr || !tensor->kept)
    refuse_name("state of " + ir::chip_name(chip, compiled_.mesh), name,
                names_of(state(chip), [](const compile::StateTensor& each) { return each.kept ? each.name : ""; }));
  return *tensor;
}

const compile::StateTensor& Executable::kept_state(const std::string& name, int64_t chip, size_t bytes) const {
  const compile::StateTensor& tensor = kept_state(name, chip);
  const ir::TensorType type = compile::local_type(tensor, compiled_.mesh);
  if (static_cast<int64_t>(bytes) != type.bytes())
    refuse_size("state of " + ir::chip_name(chip, compiled_.mesh) + ", " + name, type, bytes);
  return tensor;
}

// Part of every step: words are put together only for an error.
void Executable::stage_batch(const std::string& name, int64_t micro, int64_t chip, std::span<const std::byte> part) {
  const auto where = [&] { return "batch of " + ir::chip_name(chip, compiled_.mesh); };
  const StagedInput* const input = ports(chip).find_input(name);
  if (input == nullptr)
    refuse_name(where(), name, names_of(ports(chip).inputs, [](const StagedInput& each) { return each.name; }));
  MEGACPP_REQUIRE(micro >= 0 && micro < input->micro_steps, E1203,
                  {.where = where() + ", " + name,
                   .got = "micro-step " + std::to_string(micro),
                   .wanted = "0 to " + std::to_string(input->micro_steps - 1),
                   .next = "stage one micro-batch for each of train.micro_steps"});
  if (static_cast<int64_t>(part.size()) != input->type.bytes())
    refuse_size(where() + ", " + name, input->type, part.size());
  put_batch(*input, micro, chip, part);
}

bool Executable::stages(const std::string& name, int64_t chip) const { return ports(chip).find_input(name) != nullptr; }

const FetchedOutput& Executable::fetched_output(const std::string& name, int64_t chip) const {
  const FetchedOutput* const output = ports(chip).find_output(name);
  if (output == nullptr)
    refuse_name("outputs of " + ir::chip_name(chip, compiled_.mesh), name,
                names_of(ports(chip).outputs, [](const FetchedOutput& each) { return each.name; }));
  return *output;
}

std::vector<std::byte> Executable::fetch(const std::string& name, int64_t chip) const {
  const FetchedOutput& output = fetched_output(name, chip);
  std::vector<std::byte> values(static_cast<size_t>(output.type.bytes()) * output.actions.size());
  get_output(output, chip, values);
  return values;
}

void Executable::fetch_into(const std::string& name, int64_t chip, std::span<std::byte> values) const {
  const FetchedOutput& output = fetched_output(name, chip);
  const size_t bytes = static_cast<size_t>(output.type.bytes()) * output.actions.size();
  MEGACPP_REQUIRE(values.size() == bytes, E1203,
                  {.where = "output " + name,
                   .got = std::to_string(values.size()) + " bytes",
                   .wanted = std::to_string(bytes) + " bytes",
                   .next = "give space for every micro-step of the output"});
  get_output(output, chip, values);
}

std::vector<float> Executable::fetch_f32(const std::string& name, int64_t chip) const {
  const ir::TensorType& type = fetched_output(name, chip).type;
  MEGACPP_CHECK(type.dtype == ir::DType::f32) << "output '" << name << "' is " << ir::to_string(type);
  const std::vector<std::byte> bytes = fetch(name, chip);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<base::TimedPart> Executable::load_parts() const {
  const Counters made = counters();
  base::TimedPart part{.name = "backend", .seconds = made.compile_seconds};
  if (made.cache_hits > 0) part.note = "cached";
  return {part};
}

bool Executable::fetches(const std::string& name, int64_t chip) const {
  return ports(chip).find_output(name) != nullptr;
}

}  // namespace megacpp::runtime
