# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=megacpp/hardware/hw/chips -DOUTPUT=builtin_chips.cpp -P cmake/EmbedChips.cmake
# Writes the chip files as text of the program, so that an installed one needs no files.
file(GLOB files "${FOLDER}/*.yaml")
list(SORT files)
set(text "// Generated from megacpp/hardware/hw/chips by cmake/EmbedChips.cmake.\n#include \"megacpp/hardware/hw/builtin_chips.h\"\n\n")
string(APPEND text "namespace megacpp::hw {\n\nconst std::vector<std::pair<std::string_view, std::string_view>>& builtin_chips() {\n")
string(APPEND text "  static const std::vector<std::pair<std::string_view, std::string_view>> chips = {\n")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" content)
  string(APPEND text "      {\"${name}\", R\"chip(${content})chip\"},\n")
endforeach()
string(APPEND text "  };\n  return chips;\n}\n\n}  // namespace megacpp::hw\n")
file(WRITE "${OUTPUT}" "${text}")
