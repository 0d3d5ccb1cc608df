// SPDX-License-Identifier: Apache-2.0
// What pages load: one style, one script, one icon. The style is that of the pages of report/, with what menus, forms
// and lines need beside it.
#pragma once

#include <string>
#include <string_view>

namespace megacpp::serve {

std::string style_sheet();
std::string_view script();
std::string_view icon();

}  // namespace megacpp::serve
