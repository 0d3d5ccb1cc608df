// SPDX-License-Identifier: Apache-2.0
// Every input of a training over processes, and how the processes hold it: one table, from which they make the fields
// that they compare before step 0, and which docs/hosts.md shows. An input that is missing here cannot be compared
// (input_field) or read (base/environment.h), and tests differ each one between two processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/words.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/lineage/lineage.h"

namespace megacpp::launch {

/// How the processes of a run hold an input.
enum class Held : uint8_t {
  same_text,     // compared as it is given
  same_use,      // given to all or to none
  same_content,  // compared by what stands in it
  as_other,      // compared as what it names or sets: another input
  of_first,      // that of the first process counts
  of_each,       // each process has its own
};
constexpr auto words_of(Held /*held*/) {
  return std::to_array<base::Word<Held>>({{Held::same_text, "the same"},
                                          {Held::same_use, "given to all or to none"},
                                          {Held::same_content, "the same content"},
                                          {Held::as_other, "compared as"},
                                          {Held::of_first, "of the first process"},
                                          {Held::of_each, "of each its own"}});
}
/// Whether processes compare it: one that differs is E3103.
bool is_compared(Held held);

enum class InputKind : uint8_t { flag, variable, content };

struct RunInput {
  InputKind kind;
  std::string_view name;  // "--from", "XLA_FLAGS", "weights"
  Held held;
  std::string_view how;   // as what it is compared, or why it may differ
  std::string_view test;  // that differs it
};
std::span<const RunInput> run_inputs();

/// Flags of `train` as they were given: name and value.
using GivenFlags = std::map<std::string, std::string, std::less<>>;

/// What is compared of the flags. One without a row is compared as it is given.
std::vector<collectives::Field> flag_fields(const GivenFlags& given);
/// What is compared of the environment; `variable` as base::environment_variable.
std::vector<collectives::Field> environment_fields(const std::function<std::string(const std::string& name)>& variable);
/// Every key of the recipe.
std::vector<collectives::Field> recipe_fields(const recipe::Recipe& recipe);
/// What a chip file says: names and numbers.
std::vector<collectives::Field> chip_fields(const hw::Chip& chip);
/// Libraries by their versions, and the lock file by its content, wherever it is.
std::vector<collectives::Field> lineage_fields(const lineage::Lineage& lineage);
/// A field of an input of kind content. E9001 for one that the table does not have, or does not have as compared.
collectives::Field input_field(std::string_view input, std::string name, std::string value);

/// The table as Markdown.
std::string run_inputs_table();

}  // namespace megacpp::launch
