// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {
namespace {

constexpr std::string_view kAll = "true", kNone = "false";          // layout.reshard_after_forward
constexpr std::string_view kUsersCache = "auto", kNowhere = "off";  // xla.cache

}  // namespace

std::string text_of(const ReshardAfterForward& reshard) {
  using Over = ReshardAfterForward::Over;
  if (reshard.over == Over::group) return std::to_string(reshard.chips);
  return std::string(reshard.over == Over::all ? kAll : kNone);
}

bool read_text(std::string_view text, ReshardAfterForward& reshard) {
  using Over = ReshardAfterForward::Over;
  if (text == kAll || text == kNone) {
    reshard = {.over = text == kAll ? Over::all : Over::none};
    return true;
  }
  int64_t chips = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), chips);
  const bool is_number = !text.empty() && error == std::errc() && end == text.data() + text.size();
  if (is_number) reshard = {.over = Over::group, .chips = chips};
  return is_number;
}

std::string text_of(const ProgramCacheFolder& cache) {
  using In = ProgramCacheFolder::In;
  if (cache.in == In::folder) return cache.folder;
  return std::string(cache.in == In::users_cache ? kUsersCache : kNowhere);
}

bool read_text(std::string_view text, ProgramCacheFolder& cache) {
  using In = ProgramCacheFolder::In;
  cache = text == kUsersCache ? ProgramCacheFolder{.in = In::users_cache}
          : text == kNowhere  ? ProgramCacheFolder{.in = In::nowhere}
                              : ProgramCacheFolder{.in = In::folder, .folder = std::string(text)};
  return true;
}

}  // namespace megacpp::recipe
