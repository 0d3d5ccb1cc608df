// SPDX-License-Identifier: Apache-2.0
// Letters of a recipe's own as its text gives them: model.letters.D.family, model.letters.D.feed_forward.experts,
// train.recompute.D. What a letter may be is known only with the whole recipe, so its paths are no keys of the table.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/recipe/validate.h"

namespace megacpp::recipe {

/// Where a path leads that names a letter.
struct LetterPath {
  enum class To {
    elsewhere,  // it is none of a letter
    section,    // model.letters, model.letters.D, model.letters.D.feed_forward
    family,     // model.letters.D.family
    setting,    // model.letters.D.feed_forward.experts
    recompute,  // train.recompute.D
    unknown,    // below model.letters, but nothing that a letter has
  };
  To to = To::elsewhere;
  std::string letter = {};   // "D", or what stands in its place
  std::string setting = {};  // "feed_forward.experts"
};

LetterPath letter_path(std::string_view path);

/// E1006 for anything but one uppercase letter that is no family's. `where` is the line that defines it.
void require_own_letter(const std::string& letter, const std::string& where);

/// "did you mean 'model.letters.D.feed_forward.experts'?" for a path that is unknown.
std::string suggest_letter_key(const LetterPath& path, std::string_view unknown);

/// Of every letter: its family is one (E1003), its settings are that family's (E1001), the pattern uses it (E1006).
void check_letters(const Recipe& recipe, const Origins& origins);

/// What stands of them in the table of keys.
std::string letter_rows();
std::string letter_recompute_row();

}  // namespace megacpp::recipe
